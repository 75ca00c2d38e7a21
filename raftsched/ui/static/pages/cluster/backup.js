/** A backup: streamed into a file where the browser can, held in memory where it is small, else by a line for a shell. */

import { card, copyButton, problem } from "../../components/basics.js";
import { toast } from "../../components/dialog.js";
import { fetchOpen } from "../../core/api.js";
import { health } from "../../core/health.js";
import { session } from "../../core/session.js";
import { bytes } from "../../core/format.js";
import { h } from "../../core/vdom.js";
import { quoted } from "../editor/model.js";

const MEMORY_MAX = 256 * 2 ** 20; // bytes of a backup that is kept in memory on its way

/** Returns the part of the page that downloads one. `state`: how far it is, kept by the page. */
export function backupCard(page, state, cluster) {
  const size = cluster.nodes.find((node) => node.id === cluster.node)?.disk?.store ?? 0;
  const here = streams() || size <= MEMORY_MAX;
  const header = session.signedIn ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const line = `curl -f${header} -o raftsched.backup ${quoted(`${health.node}/v1/cluster/snapshot?consistency=leader`)}`;
  const start = async () => {
    const name = `raftsched-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.backup`;
    const update = (changes) => page.update(Object.assign(state, changes));
    try {
      const target = streams()
        ? await (await window.showSaveFilePicker({ suggestedName: name })).createWritable()
        : inMemory(name);
      update({ running: true, got: 0, error: null, done: false });
      const response = await fetchOpen("/v1/cluster/snapshot", {
        query: { consistency: "leader" },
        signal: page.signal,
      });
      await response.body.pipeThrough(counting((got) => update({ got }))).pipeTo(target, { signal: page.signal });
      update({ done: true });
      toast(`The backup is complete: ${bytes(state.got)}`);
    } catch (error) {
      if (error.name !== "AbortError") update({ error });
    }
    update({ running: false });
  };
  return card("Backup", [
    h(
      "p",
      null,
      `The whole state in one file, as of one entry of the log: about ${bytes(size)}. It holds everything that the cluster knows; keep it secret. `,
      h("code", null, "raftsched cluster verify FILE"),
      " says whether it is whole, ",
      h("code", null, "raftsched cluster restore"),
      " begins a cluster with it.",
    ),
    here
      ? h(
          "p",
          { class: "row backup" },
          h(
            "button",
            { type: "button", disabled: state.running, onclick: start },
            state.running ? "Downloading …" : "Download a backup",
          ),
          h(
            "span",
            { role: "status" },
            state.running || state.done ? `${bytes(state.got)}${state.done ? ", complete" : ""}` : "",
          ),
        )
      : h(
          "p",
          { class: "warning" },
          "This browser would have to hold all of it in memory. Use the line below instead.",
        ),
    problem(state.error),
    h("p", { class: "code row backup" }, h("code", null, line), copyButton(line, "Copy the line")),
  ]);
}

/** Returns whether this browser writes a download to its file as it comes. */
function streams() {
  return "showSaveFilePicker" in window;
}

/** Returns a stream that lets everything through and tells how much it was. */
function counting(tell) {
  let got = 0;
  let told = 0;
  return new TransformStream({
    transform(piece, controller) {
      got += piece.byteLength;
      controller.enqueue(piece);
      if (performance.now() - told < 200) return;
      told = performance.now();
      tell(got);
    },
    flush: () => tell(got),
  });
}

/** Returns a stream that becomes a download when it is at its end. */
function inMemory(name) {
  const parts = [];
  return new WritableStream({
    write: (piece) => void parts.push(piece),
    close() {
      const url = URL.createObjectURL(new Blob(parts));
      const link = Object.assign(document.createElement("a"), { href: url, download: name });
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    },
  });
}
