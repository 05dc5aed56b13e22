/**
 * Colours of numbers: 0 is nearly white, what is above it goes to brown, what is below it to violet. They are ColorBrewer's
 * PuOr (https://colorbrewer2.org, Apache 2.0), which it lists as safe for the colour-blind: lightness tells how far a
 * number is from 0, and the hue on which side of it.
 */
import { channels } from "./identity.ts";

export const ABOVE = ["#f7f7f7", "#fee0b6", "#fdb863", "#e08214", "#b35806", "#7f3b08"];
export const BELOW = ["#f7f7f7", "#d8daeb", "#b2abd2", "#8073ac", "#542788", "#2d004b"];

/**
 * @param high where the scale ends
 * @param diverging whether it goes as far down as up; else it begins at 0
 * @returns as #rrggbb
 */
export function heatColour(value: number, high: number | null, diverging: boolean): string {
  const stops = diverging && value < 0 ? BELOW : ABOVE;
  const share = high ? Math.min(Math.max(diverging ? Math.abs(value) / high : value / high, 0), 1) : 0;
  const at = share * (stops.length - 1);
  const first = Math.min(Math.floor(at), stops.length - 2);
  const [low, next] = [channels(stops[first]), channels(stops[first + 1])];
  const mixed = low.map((each, i) => Math.round(each + (next[i] - each) * (at - first)));
  return `#${mixed.map((each) => each.toString(16).padStart(2, "0")).join("")}`;
}
