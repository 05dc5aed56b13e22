// @ts-check
/**
 * By how many places each key moves a drawing that is a slider: those of ARIA's pattern, with ten for a page.
 */
export const SLIDER_KEYS = /** @type {Record<string, number>} */ ({
  ArrowRight: 1,
  ArrowUp: 1,
  ArrowLeft: -1,
  ArrowDown: -1,
  PageUp: 10,
  PageDown: -10,
  Home: -Infinity,
  End: Infinity,
});
