/** By how many places each key moves a drawing that is a slider: those of ARIA's pattern, with ten for a page. */
export const SLIDER_KEYS = {
  ArrowRight: 1,
  ArrowUp: 1,
  ArrowLeft: -1,
  ArrowDown: -1,
  PageUp: 10,
  PageDown: -10,
  Home: -Infinity,
  End: Infinity,
} as Record<string, number>;
