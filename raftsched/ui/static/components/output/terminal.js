/** Text that was meant for a terminal: escape sequences out of it (ECMA-48), of which colours and weights are kept. */

const CONTROL = /[\x00-\x1f\x7f-\x9f]/g;
const CSI = /([0-?]*)[ -/]*([@-~])/y;
const ESCAPE = /[ -/]*[0-~]/y;
const STRING_END = /[\x07\x9c\n]|\x1b\\/g;
const SEQUENCE_MAX = 4096; // characters after which something that does not end is taken for text
const TAB = 8;

export const BOLD = 1;
export const DIM = 2;
export const ITALIC = 4;
export const UNDERLINE = 8;
export const INVERSE = 16;
export const STRIKE = 32;
const FLAGS = { 1: BOLD, 2: DIM, 3: ITALIC, 4: UNDERLINE, 7: INVERSE, 9: STRIKE };
const OFF = { 22: BOLD | DIM, 23: ITALIC, 24: UNDERLINE, 27: INVERSE, 29: STRIKE };
export const RGB = 0x1000000; // a colour is an index below 256, or this and its red, green and blue

/**
 * Reads one stream, piece by piece: a sequence may begin in one and end in the next.
 *
 * What is left goes to a sink: `write(text, style)`, `newline()`, `restart()` (the line is written anew), `back()` and
 * `pad(to)`. A style is null, or `{fg, bg, flags}` with null for a colour that was not chosen; it is never changed.
 */
export class Terminal {
  style = null;
  #held = ""; // the beginning of a sequence

  feed(piece, sink) {
    const text = this.#held + piece;
    this.#held = "";
    for (let at = 0; at < text.length;) {
      CONTROL.lastIndex = at;
      const found = CONTROL.exec(text);
      const stop = found ? found.index : text.length;
      if (stop > at) sink.write(text.slice(at, stop), this.style);
      if (!found) return;
      at = stop + 1;
      const code = text.charCodeAt(stop);
      if (code === 10) {
        sink.newline();
      } else if (code === 13) {
        if (at === text.length) this.#held = "\r";
        else if (text[at] !== "\n") sink.restart();
      } else if (code === 9) {
        sink.pad(TAB, this.style);
      } else if (code === 8) {
        sink.back();
      } else if (code === 27) {
        const end = this.#escape(text, at);
        if (end < 0) {
          this.#held = text.slice(stop);
          return;
        }
        at = end;
      }
    }
  }

  /** Returns where a sequence ends whose ESC is before this place, or -1 when the rest of it is still to come. */
  #escape(text, at) {
    const open = text.length - at < SEQUENCE_MAX ? -1 : at;
    const kind = text[at];
    if (kind === undefined) return -1;
    if (kind === "[") {
      CSI.lastIndex = at + 1;
      const found = CSI.exec(text);
      if (!found) return /^[ -?]*$/.test(text.slice(at + 1, at + SEQUENCE_MAX)) ? open : at + 1;
      if (found[2] === "m") this.style = restyled(this.style, found[1]);
      return CSI.lastIndex;
    }
    if ("]PX^_".includes(kind)) {
      STRING_END.lastIndex = at + 1;
      const found = STRING_END.exec(text);
      if (!found) return open;
      return found[0] === "\n" ? found.index : STRING_END.lastIndex;
    }
    ESCAPE.lastIndex = at;
    if (ESCAPE.test(text)) return ESCAPE.lastIndex;
    return /^[ -/]*$/.test(text.slice(at, at + SEQUENCE_MAX)) ? open : at;
  }
}

/** Returns the style after "select graphic rendition" with these parameters. */
export function restyled(before, parameters) {
  let { fg, bg, flags } = before ?? { fg: null, bg: null, flags: 0 };
  const given = parameters.split(";");
  for (let i = 0; i < given.length; i++) {
    const [code, ...parts] = given[i].split(":").map(Number);
    if (code === 38 || code === 48) {
      const [colour, used] = parts.length ? [colourOf(parts[0], parts.slice(1)), 0] : following(given, i);
      i += used;
      if (colour !== undefined && code === 38) fg = colour;
      else if (colour !== undefined) bg = colour;
    } else if (code === 0) [fg, bg, flags] = [null, null, 0];
    else if (code === 4 && parts[0] === 0) flags &= ~UNDERLINE;
    else if (code in FLAGS) flags |= FLAGS[code];
    else if (code === 21) flags |= UNDERLINE;
    else if (code in OFF) flags &= ~OFF[code];
    else if (code >= 30 && code <= 37) fg = code - 30;
    else if (code >= 40 && code <= 47) bg = code - 40;
    else if (code >= 90 && code <= 97) fg = code - 82;
    else if (code >= 100 && code <= 107) bg = code - 92;
    else if (code === 39) fg = null;
    else if (code === 49) bg = null;
  }
  return fg === null && bg === null && !flags ? null : { fg, bg, flags };
}

/** Returns the colour in the parameters after this one, and how many of them it takes. */
function following(given, at) {
  const kind = Number(given[at + 1]);
  if (kind !== 2 && kind !== 5) return [undefined, 0];
  const count = kind === 2 ? 3 : 1;
  return [colourOf(kind, given.slice(at + 2, at + 2 + count).map(Number)), count + 1];
}

function colourOf(kind, parts) {
  const fits = (value) => Number.isInteger(value) && value >= 0 && value <= 255;
  if (kind === 5 && fits(parts[0])) return parts[0];
  const [r, g, b] = parts.slice(-3);
  return kind === 2 && parts.length >= 3 && [r, g, b].every(fits) ? RGB | (r << 16) | (g << 8) | b : undefined;
}
