"use strict";
// Functions that scripts/accessibility.py calls in an open page.

// Return the texts and shapes with too little contrast to the colors behind them.
//
// minima: { text, shapes, decoration }. Text that is large needs only the contrast of shapes. A
// shape needs it for its fill or its outline. Decoration is a list of CSS colors of shapes that are
// not needed to read a figure, such as its grid; neither are bands, which are nearly transparent.
function contrastProblems({ text: leastText, shapes: leastShapes, decoration }) {
  const BAND = 0.2;
  const parse = (color) => {
    const parts = color.match(/[\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const over = (top, alpha, below) => top.map((part, k) => alpha * part + (1 - alpha) * below[k]);
  const luminance = (rgb) => {
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = rgb.map((part) => linear(part / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = ({ rgb, alpha }, ground) => {
    const both = [luminance(over(rgb, alpha, ground)), luminance(ground)];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  };
  // Paper is white and has no backgrounds unless a page asks for them.
  const behind = (element) => {
    const layers = [];
    for (let outer = element; outer; outer = outer.parentElement) {
      const layer = parse(getComputedStyle(outer).backgroundColor);
      layers.unshift(layer);
      if (layer.alpha === 1) break;
    }
    return layers.reduce((below, { rgb, alpha }) => over(rgb, alpha, below), [255, 255, 255]);
  };
  const visible = (element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const problems = new Set();
  const check = (ratio, least, what) => {
    if (ratio < least) problems.add(`contrast ${ratio.toFixed(2)} instead of ${least}: ${what}`);
  };

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim();
    const parent = texts.currentNode.parentElement;
    if (!text || parent.closest("script, style, noscript") || !visible(parent)) continue;
    const box = parent.getBoundingClientRect();
    if (box.width <= 1 || box.height <= 1) continue; // for screen readers only
    const style = getComputedStyle(parent);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = contrast(parse(style.color), behind(parent));
    check(ratio, large ? leastShapes : leastText, `text "${text.slice(0, 40)}", ${style.color}`);
  }

  for (const svg of document.querySelectorAll("svg.plot")) {
    if (!visible(svg)) continue;
    const ground = behind(svg);
    for (const shape of svg.querySelectorAll("path, use")) {
      if (shape.closest("defs")) continue;
      const style = getComputedStyle(shape);
      const isLetter = shape.tagName === "use" && !shape.hasAttribute("y");
      const paints = (isLetter ? ["fill"] : ["fill", "stroke"])
        .filter((kind) => style[kind] !== "none")
        .map((kind) => ({ color: style[kind], opacity: style[`${kind}Opacity`] * style.opacity }))
        .filter(({ color, opacity }) => !decoration.includes(color) && opacity >= BAND);
      if (!paints.length) continue;
      const ratios = paints.map(({ color, opacity }) => {
        const { rgb, alpha } = parse(color);
        return contrast({ rgb, alpha: alpha * opacity }, ground);
      });
      const what = `${isLetter ? "letter" : "shape"} in #${svg.id}, ${paints[0].color}`;
      check(Math.max(...ratios), isLetter ? leastText : leastShapes, what);
    }
  }
  return Array.from(problems);
}

// Number the elements that the keyboard must reach, and return how many there are.
function numberStops() {
  const kinds = "a[href], button, summary, input, select, textarea, [tabindex]";
  const stops = Array.from(document.querySelectorAll(kinds)).filter(
    (element) =>
      element.checkVisibility({ visibilityProperty: true }) &&
      !element.disabled && element.type !== "hidden" && element.tabIndex >= 0);
  stops.forEach((element, number) => { element.dataset.stop = number; });
  return stops.length;
}

// Return the number and the name of the element with the focus, and whether the focus is visible.
function focusedStop() {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const style = getComputedStyle(element);
  const outlined = [style, getComputedStyle(element, "::after")].some(
    (one) => one.outlineStyle !== "none" && parseFloat(one.outlineWidth) > 0);
  const text = element.getAttribute("aria-label") || element.textContent;
  return {
    stop: element.dataset.stop === undefined ? null : Number(element.dataset.stop),
    visible: outlined || style.boxShadow !== "none",
    name: `<${element.tagName.toLowerCase()}> ${text.trim().slice(0, 40)}`,
  };
}
