/** What was recorded of each layout of a board without Python (meshlab/widgets/frozen/record.py), by the layout's number. */
import { Table } from "./table.ts";
import type { Collective, Place, Shards, Totals } from "./types.ts";

export type Tensor = { place: string; tensor: Place; shards: Shards };
type Asked = {
  place?: string | null;
  dim?: string | null;
  device?: number | string | null;
  collective?: string | null;
};

const isDevice = (device: number | string, devices: number) => typeof device === "number" && device < devices;

export class Recorded {
  table: Table;
  root: any;
  states: any[];
  /** States by their layouts as text, once a layout was asked for. */
  numbers: Map<string, number> | null = null;

  constructor(text: string) {
    this.table = new Table(text);
    this.root = this.table.root;
    this.states = this.table.shallow(this.root.states);
  }

  state(number: number): any {
    return this.table.shallow(this.table.shallow(this.states[number]).state);
  }

  part(number: number, name: string): any {
    return this.table.open(this.table.shallow(this.state(number).parts)[name]);
  }

  tensors(number: number): Tensor[] {
    return this.table.open(this.state(number).tensors);
  }

  /** The collectives by their names, with the place of the tensor that each moves. */
  moved(number: number): Record<string, string | null> {
    return this.table.open(this.state(number).collectives);
  }

  /** What of a selection a state has not got, in words. */
  unknown({ place, dim, device, collective }: Asked, number: number): string[] {
    const { chips, mesh } = this.part(number, "board");
    return [
      place !== undefined && !this.tensors(number).some((each) => each.place === place) && `tensor “${place}”`,
      dim && !chips.some((chip: { name: string }) => chip.name === dim) && `dim “${dim}”`,
      device != null && !isDevice(device, this.root.devices) && `device ${device} of ${mesh.size}`,
      collective != null && !(collective in this.moved(number)) && `collective “${collective}”`,
    ].flatMap((what) => (what ? [`There is no ${what}.`] : []));
  }

  totals(number: number): Totals {
    return this.part(number, "comparison").comparison.cards[0].totals;
  }

  label(preset: string): string {
    return this.table.open(this.root.labels)[preset];
  }

  get views(): string[] {
    return this.table.open(this.root.views);
  }

  /** The collectives that are listed. */
  rows(number: number): Collective[] {
    return this.part(number, "board").collectives.rows;
  }

  layoutText(number: number): string {
    return this.part(number, "board").layout.text;
  }

  layoutOf(number: number): unknown {
    return JSON.parse(this.part(number, "board").document).layout;
  }

  /** The state of a layout, if it was recorded. */
  laidOut(layout: unknown): number | undefined {
    this.numbers ??= new Map(this.states.map((_, i) => [JSON.stringify(this.layoutOf(i)), i]));
    return this.numbers.get(JSON.stringify(layout));
  }

  documented(document: string): number | undefined {
    return this.laidOut(JSON.parse(document).layout);
  }
}
