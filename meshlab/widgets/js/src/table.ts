/**
 * The table of a board without Python, as meshlab/widgets/frozen/pool.py packs it: a value a line, in which `{"@": 17}`
 * stands for the value of line 17. A line is parsed when it is asked for, and equal values are one object.
 */

type Reference = { "@": number };

export class Table {
  lines: string[];
  known = new Map<number, any>();

  constructor(text: string) {
    this.lines = text.split("\n");
  }

  /** The last line, which refers to all others. */
  get root(): any {
    return this.shallow({ "@": this.lines.length - 1 });
  }

  /** A value whose parts may still be references. */
  shallow(value: any): any {
    let found = value;
    while (isReference(found)) found = JSON.parse(this.lines[found["@"]]);
    return found;
  }

  /** A value with all its parts. */
  open(value: any): any {
    if (isReference(value)) return this.line(value["@"]);
    if (Array.isArray(value)) return value.map((each) => this.open(each));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, this.open(each)]));
  }

  line(number: number): any {
    if (!this.known.has(number)) this.known.set(number, this.open(JSON.parse(this.lines[number])));
    return this.known.get(number);
  }
}

function isReference(value: any): value is Reference {
  return value !== null && typeof value === "object" && "@" in value;
}
