/** Server-sent events out of text that comes in pieces (HTML Living Standard, section 9.2). */

/** Returns a function that takes the next piece of text, and returns the events that are complete with it. */
export function makeEventParser() {
  let rest = "";
  return (text) => {
    rest += text;
    const events = [];
    let from = 0;
    for (let to = rest.indexOf("\n\n", from); to >= 0; to = rest.indexOf("\n\n", from)) {
      events.push(parseEvent(rest.slice(from, to)));
      from = to + 2;
    }
    rest = rest.slice(from);
    return events;
  };
}

function parseEvent(block) {
  const event = { id: undefined, event: "message", data: "" };
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "data") data.push(value);
    else if (field === "id" || field === "event") event[field] = value;
  }
  event.data = data.join("\n");
  return event;
}
