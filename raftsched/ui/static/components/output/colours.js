/** Colours of terminals, so that they can be read on a light page and on a dark one (WCAG 2.2, success criterion 1.4.3). */

import { BOLD, DIM, INVERSE, ITALIC, RGB, STRIKE, UNDERLINE } from "./terminal.js";

const SIXTEEN = [
  0x1e2127, 0xb3261e, 0x1f7a3d, 0x8a6100, 0x2457c5, 0x8a3ab9, 0x0f7285, 0xaab2bd, 0x6b7682, 0xe0584f, 0x35a866,
  0xd99a1c, 0x5b8def, 0xb77be0, 0x2fa7bd, 0xf4f6f8,
];
const COLOUR_STEPS = [0, 95, 135, 175, 215, 255];
const LIGHT = [0xff, 0xff, 0xff]; // --surface of both themes
const DARK = [0x17, 0x1b, 0x21];
const CONTRAST = 4.5;
const COLOUR_WORDS = [
  [BOLD, "t-bold"],
  [DIM, "t-dim"],
  [ITALIC, "t-italic"],
  [UNDERLINE, "t-under"],
  [STRIKE, "t-strike"],
  [INVERSE, "t-inverse"],
];

/** Returns red, green and blue of a colour of a terminal. */
export function rgbOf(colour) {
  if (colour >= RGB) return [(colour >> 16) & 255, (colour >> 8) & 255, colour & 255];
  if (colour < 16) return [SIXTEEN[colour] >> 16, (SIXTEEN[colour] >> 8) & 255, SIXTEEN[colour] & 255];
  if (colour >= 232) return Array(3).fill(8 + 10 * (colour - 232));
  const at = colour - 16;
  return [COLOUR_STEPS[Math.floor(at / 36)], COLOUR_STEPS[Math.floor(at / 6) % 6], COLOUR_STEPS[at % 6]];
}

/** Returns the contrast of two colours: from 1 to 21. */
export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Returns a colour as near as may be to this one that can be read before that one. */
export function readable(rgb, behind) {
  const to = luminance(behind) > 0.18 ? 0 : 255;
  for (let part = 0; part < 1; part += 0.05) {
    const mixed = rgb.map((value) => Math.round(value + (to - value) * part));
    if (contrast(mixed, behind) >= CONTRAST) return mixed;
  }
  return [to, to, to];
}

const looks = new Map();

/** Returns the class and the style of what is written in a style of a terminal. */
export function look(style) {
  let { fg, bg } = style;
  const { flags } = style;
  const key = `${fg} ${bg} ${flags}`;
  if (looks.has(key)) return looks.get(key);
  let inverse = Boolean(flags & INVERSE);
  if (inverse && (fg !== null || bg !== null)) {
    [fg, bg] = [bg ?? "page", fg ?? "text"];
    inverse = false;
  }
  const made = {
    class: COLOUR_WORDS.filter(([flag]) => flags & flag && (flag !== INVERSE || inverse)).map(([, name]) => name),
    style: {},
  };
  const back = { light: LIGHT, dark: DARK };
  if (bg === "text") [back.light, back.dark] = [DARK, LIGHT];
  else if (bg !== null) back.light = back.dark = rgbOf(bg);
  if (bg !== null) made.style["background-color"] = both(back.light, back.dark);
  if (fg !== null || bg !== null) {
    const front = fg === null ? [DARK, LIGHT] : fg === "page" ? [LIGHT, DARK] : [rgbOf(fg), rgbOf(fg)];
    made.style.color = both(readable(front[0], back.light), readable(front[1], back.dark));
  }
  if (looks.size > 5000) looks.clear();
  looks.set(key, made);
  return made;
}

function both(light, dark) {
  return `light-dark(rgb(${light.join(" ")}), rgb(${dark.join(" ")}))`;
}
