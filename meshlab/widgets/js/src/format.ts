/**
 * Numbers as a reader wants them; the exact number of bytes is always in the element's title. Python writes the same
 * (cost/machines/units.py), and a table holds both to it (test/numbers.json).
 */

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const SECONDS: [string, number][] = [
  ["s", 1],
  ["ms", 1e-3],
  ["µs", 1e-6],
  ["ns", 1e-9],
];

const RATES: [string, number][] = [
  ["PFLOP/s", 1e15],
  ["TFLOP/s", 1e12],
  ["GFLOP/s", 1e9],
  ["MFLOP/s", 1e6],
  ["kFLOP/s", 1e3],
];

// Made once: a number written by `toLocaleString` takes thirty times as long.
const PLAIN = new Intl.NumberFormat("en-US");
const THREE = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
const SIX = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });
const FIXED = [0, 1, 2].map(
  (digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
);

/** 12300.4 → "12,300": without an exponent, and without zeros at the end. */
export function threeDigits(value: number): string {
  return THREE.format(Number(value.toPrecision(3)));
}

/** 1628116 → "1.63 MB" (powers of 1000, three digits). */
export function bytes(count: number): string {
  const magnitude = Math.abs(count);
  let unit = 0;
  let value = magnitude;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  const text = FIXED[digits].format(Number(value.toFixed(digits)));
  return `${count < 0 ? "−" : ""}${text} ${UNITS[unit]}`;
}

/** 4000 → "+4.00 kB", 0 → "±0". */
export function signedBytes(count: number): string {
  if (count === 0) return "±0";
  return `${count > 0 ? "+" : ""}${bytes(count)}`;
}

/** 0.125 → "12.5%" (three digits). */
export function percent(share: number): string {
  return `${share < 0 ? "−" : ""}${threeDigits(Math.abs(100 * share))}%`;
}

/**
 * 13 of 100 → "−87%", 130 of 100 → "+30%", 560 of 100 → "× 5.6", 100 of 100 → "±0".
 * @param base above 0
 */
export function relative(value: number, base: number): string {
  const ratio = value / base;
  if (ratio >= 2) return `× ${PLAIN.format(Number(ratio.toPrecision(2)))}`;
  // What is not nothing is not less by all.
  const more = value > 0 ? Math.max(-99.9, 100 * (ratio - 1)) : -100;
  const digits = Math.abs(more) < 9.95 || (more < -99 && more > -100) ? 1 : 0;
  if (Number(Math.abs(more).toFixed(digits)) === 0) return "±0";
  return `${more < 0 ? "−" : "+"}${Math.abs(more).toFixed(digits)}%`;
}

/** 2 s against 8 s → "4× faster", where it is twice as fast at least, or half. */
export function faster(time: number, base: number): string {
  const ratio = Math.max(time, base) / Math.min(time, base);
  return `${PLAIN.format(Number(ratio.toPrecision(2)))}× ${time < base ? "faster" : "slower"}`;
}

/** 1628116 → "1,628,116". */
export function exact(count: number): string {
  return PLAIN.format(count);
}

/** 3072 → "3,072", 21.84217 → "21.8422": whole numbers in full, others to six digits. */
export function number(value: number): string {
  return (Number.isInteger(value) || Math.abs(value) >= 1e6 ? FIXED[0] : SIX).format(value);
}

/** 3 → "+3", −1200 → "−1,200", 0 → "±0". */
export function signedCount(count: number): string {
  if (count === 0) return "±0";
  return `${count < 0 ? "−" : "+"}${exact(Math.abs(count))}`;
}

export function plural(count: number, noun: string): string {
  return `${exact(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Slice 0 → "A", 25 → "Z", 26 → "AA". */
export function letter(index: number): string {
  const last = String.fromCharCode(65 + (index % 26));
  return index < 26 ? last : letter(Math.floor(index / 26) - 1) + last;
}

/** @param value in words where it is no finite number */
export function loss(value: number | string | null): string {
  return typeof value === "number" ? value.toPrecision(6) : (value ?? "–");
}

/** 0.00342 → "3.42 ms" (three digits), as cost/machines/units.py writes it. */
export function seconds(count: number): string {
  const magnitude = Math.abs(count);
  const sign = count < 0 ? "−" : "";
  if (magnitude === 0) return "0 s";
  // What three digits round to 1000 of a unit is 1 of the next.
  const [unit, size] = SECONDS.find(([, each]) => magnitude >= 0.9995 * each) ?? ["ns", 1e-9];
  return `${sign}${threeDigits(magnitude / size)} ${unit}`;
}

/** 1.97e14 → "197 TFLOP/s" (three digits). */
export function flops(rate: number): string {
  const [unit, size] = RATES.find(([, each]) => rate >= 0.9995 * each) ?? ["FLOP/s", 1];
  return `${threeDigits(rate / size)} ${unit}`;
}

/** 0.002 → "+2 ms", 0 → "±0". */
export function signedSeconds(count: number): string {
  if (count === 0) return "±0";
  return `${count > 0 ? "+" : ""}${seconds(count)}`;
}
