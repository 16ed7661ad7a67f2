"use strict";
// Requests an answer written from the hits, and streams it into the page above them. The model's text is inserted as
// text nodes and a few kinds of elements. None of it is parsed as HTML, and only its citations become links.
(() => {
  const MAX_ANSWER_CHARS = 50_000;
  const MAX_EXCHANGES = 10; // sent with a follow-up question
  const MAX_CONVERSATIONS = 20; // restored after going back
  const [region, results, search] = ["answer", "results", "search"].map((id) => document.getElementById(id));
  const [list, further, button, status] = [".turns", ".further", ".write", "[role=status]"].map((selector) => region.querySelector(selector));
  const field = further.querySelector("input");
  const hint = status.textContent;
  const conversations = new Map(); // by their first search
  let conversation = null; // on the page, with the searches whose hits may appear below it
  let call = null; // AbortController of the current answer
  let pendingQuery = null; // the query whose hits will appear below the answer
  let entered = Boolean(search.elements.q.defaultValue) // the query was submitted or in the address, not typed or restored
    && performance.getEntriesByType("navigation")[0]?.type !== "back_forward";
  let arrived = () => {}; // called when new hits are shown
  let cited = null; // the hit that a citation opened, and the citation

  // --- the conversation of the hits on the page

  function look() {
    const fresh = document.getElementById("question");
    const key = fresh?.dataset.request;
    if (fresh && pendingQuery !== null && JSON.parse(key).query === pendingQuery) conversation?.searches.add(key);
    if (!conversation?.searches.has(key) && !(pendingQuery !== null && !fresh)) change(key);
    if (fresh && key === conversation?.key && entered && !conversation.turns.length && isQuestion(fresh)) write();
    if (fresh) entered = false;
    pendingQuery = null;
    arrived();
  }

  const isQuestion = (fresh) => region.dataset.when === "auto" && fresh.dataset.close
    && (conversation.request.query.split(/\s+/).length > 2 || /[?？]$/.test(conversation.request.query));

  function change(key) {
    stop();
    region.hidden = !key;
    conversation = key ? conversations.get(key) ?? { key, request: JSON.parse(key), turns: [], searches: new Set([key]) } : null;
    if (conversation) {
      conversations.delete(key);
      conversations.set(key, conversation);
      if (conversations.size > MAX_CONVERSATIONS) conversations.delete(conversations.keys().next().value);
    }
    list.replaceChildren(...(conversation?.turns ?? []).map((turn) => turn.node));
    field.value = "";
    finish(hint);
  }

  function showHits(query) {
    pendingQuery = query;
    results.dispatchEvent(new CustomEvent("showhits", { detail: query }));
    return new Promise((done) => { arrived = done; });
  }

  // --- writing

  function finish(message) {
    const written = Boolean(conversation?.turns.length);
    button.textContent = written ? "Answer again" : "Answer";
    further.hidden = !conversation?.turns.some((turn) => turn.text);
    region.classList.toggle("begun", written);
    if (status.textContent !== message) status.textContent = message; // setting it again would announce it again
  }

  function stop() {
    call?.abort();
    call = null;
  }

  async function write(question = null) {
    stop();
    const mine = call = new AbortController();
    const target = conversation;
    const turn = begin(question);
    const earlier = target.turns.filter((other) => other !== turn && other.text).slice(-MAX_EXCHANGES);
    const history = earlier.map((past) => ({ question: past.question, answer: past.text.slice(0, 20_000) }));
    const message = await stream(turn, question === null ? target.request : { ...target.request, query: question, history }, mine);
    turn.body.removeAttribute("aria-busy");
    turn.draw();
    if (call === mine) call = null;
    if (target === conversation && !call) finish(message);
  }

  function begin(question) {
    const turn = { question: question ?? conversation.request.query, text: "", hits: [], proofs: [], ended: "" };
    turn.node = make("div", { class: "turn" });
    turn.body = make("div", { class: "answer-text", "aria-busy": "true", dir: "auto" });
    if (question !== null) turn.node.append(make("h3", { class: "question", dir: "auto" }, plain(question)));
    turn.note = make("p", { class: "proof-note", "aria-live": "polite" });
    turn.node.append(turn.body, turn.note);
    let due = 0;
    turn.draw = () => {
      clearTimeout(due);
      due = 0;
      draw(turn);
    };
    turn.later = () => { due ||= setTimeout(turn.draw, turn.text.length > 5_000 ? 200 : 30); };
    conversation.turns.push(turn);
    list.append(turn.node);
    finish("Writing an answer…");
    button.textContent = "Stop";
    further.hidden = true;
    return turn;
  }

  /** Reads an answer to its end, and returns the status message to show. */
  async function stream(turn, request, control) {
    try {
      const headers = { Accept: "text/event-stream", "Content-Type": "application/json" };
      if (!request.history) headers["X-Pilotlight-Typing"] = "1"; // the page has already sent this query, and the server counts it once
      const reply = await fetch(region.dataset.api, {
        method: "POST",
        headers,
        body: JSON.stringify(request),
        signal: control.signal,
      });
      if (!reply.ok) return failure(await reply.json().catch(() => null), reply.status);
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      let buffer = "";
      for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
        const events = (buffer + chunk.value).split("\n\n");
        buffer = events.pop();
        for (const event of events) take(turn, event);
        if (turn.text.length > MAX_ANSWER_CHARS) {
          control.abort();
          return "The answer was cut off: it is too long.";
        }
        if (turn.ended) return turn.ended;
      }
      return "The answer broke off.";
    } catch {
      return control.signal.aborted ? "Stopped." : "The answer broke off: the server cannot be reached.";
    }
  }

  function failure(problem, code) {
    const why = problem?.detail ? plain(String(problem.detail)) : `the server answered with status ${code}`;
    return `No answer: ${why}${/[.!?]$/.test(why) ? "" : "."}`;
  }

  function take(turn, event) {
    const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? [];
    const value = data && JSON.parse(data);
    if (name === "hits") {
      turn.hits = value.hits;
      turn.query = value.query;
      if (turn.question !== value.query || conversation?.turns.length > 1) showHits(value.query);
    } else if (name === "token") turn.text += value.text.replace(MARKS, "\ufffd");
    else if (name === "proof") turn.proofs.push(value);
    else if (name === "error") turn.ended = failure(value, value.status);
    else if (name === "done") {
      const ends = { length: "The answer was cut off by the model.", "nothing found": "No answer: nothing was found." };
      turn.ended = ends[value.finish_reason] ?? "The answer is written.";
    }
    turn.later();
  }

  // --- text to nodes

  function make(name, properties = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  /** Removes characters that change the direction of text, and the private-use characters of proof marks. */
  const plain = (text) => text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ue000-\ue003]/g, "");

  const ITEM = /^[ \t]*(?:[-*+•]|(\d{1,3})[.)])[ \t]+/;

  /** Splits a text into blocks. The `parts` of a list are its items, and the `parts` of code its lines. */
  function blocksOf(text) {
    const blocks = [];
    let open = null;
    for (const line of text.slice(0, MAX_ANSWER_CHARS).split("\n")) {
      const item = ITEM.exec(line);
      const heading = /^#{1,6}[ \t]+/.exec(line);
      if (/^\s*```/.test(line)) {
        open = open?.kind === "pre" ? null : { kind: "pre", parts: [] };
        if (open) blocks.push(open);
      } else if (open?.kind === "pre") open.parts.push(line);
      else if (!line.trim()) open = open?.parts.length && (open.kind === "ol" || open.kind === "ul") ? open : null;
      else if (heading) {
        blocks.push({ kind: "p", heading: true, parts: [line.slice(heading[0].length)] });
        open = null;
      } else if (item) {
        const kind = item[1] ? "ol" : "ul";
        if (open?.kind !== kind) blocks.push(open = { kind, start: Number(item[1] ?? 1), parts: [] });
        open.parts.push(line.slice(item[0].length));
      } else if (open?.kind === "p" || (open && /^[ \t]/.test(line))) open.parts[open.parts.length - 1] += `\n${line}`;
      else blocks.push(open = { kind: "p", parts: [line] });
    }
    return blocks;
  }

  /** Replaces only changed blocks, so that selections and the focus are kept. */
  function draw(turn) {
    blocksOf(markProofs(turn)).forEach((block, number) => {
      const state = JSON.stringify(block);
      const old = turn.body.children[number];
      if (old?.state === state) return;
      const node = nodeOf(turn, block);
      node.state = state;
      const focused = old ? [...old.querySelectorAll("button")].indexOf(document.activeElement) : -1;
      if (old) old.replaceWith(node);
      else turn.body.append(node);
      if (focused >= 0) node.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
    });
  }

  function nodeOf(turn, block) {
    if (block.kind === "pre") return make("pre", { tabindex: "0" }, make("code", {}, plain(block.parts.join("\n"))));
    if (block.kind === "p") return make("p", { dir: "auto", ...(block.heading && { class: "heading" }) }, ...inline(turn, block.parts[0]));
    const items = block.parts.map((part) => make("li", { dir: "auto" }, ...inline(turn, part)));
    return make(block.kind, block.kind === "ol" ? { start: block.start } : {}, ...items);
  }

  function inline(turn, text) {
    const nodes = [];
    let place = 0;
    for (const match of text.matchAll(/(`+)([^`]+)\1|\*\*(\S(?:[^*]*\S)?)\*\*|\[(\d{1,3})\]|\ue000(\d+)\ue001|\ue002([^\ue000-\ue003]*)\ue003/g)) {
      const [source, , code, bold, number, proof, differing] = match;
      if (number && !turn.hits[number - 1]) continue;
      nodes.push(plain(text.slice(place, match.index)));
      if (code) nodes.push(make("code", {}, plain(code)));
      else if (bold) nodes.push(make("strong", {}, ...inline(turn, bold)));
      else if (proof) nodes.push(proofMark(turn, turn.proofs[proof]));
      else if (differing !== undefined) nodes.push(make("mark", { class: "differing" }, plain(differing)));
      else nodes.push(citation(turn, Number(number)));
      place = match.index + source.length;
    }
    return [...nodes, plain(text.slice(place))].filter((node) => node !== "");
  }

  function citation(turn, number) {
    const hit = turn.hits[number - 1];
    const name = plain([hit.title, hit.section].filter(Boolean).join(", ").slice(0, 200));
    const mark = make("button", { type: "button", class: "citation", title: name, "aria-label": `Passage ${number}: ${name}` }, String(number));
    mark.addEventListener("click", () => openHit(turn, number, mark));
    return mark;
  }

  // --- proofs: a mark after each checked sentence, and a note with the reason

  const MARKS = /[\ue000-\ue003]/g; // private-use characters, placeholders for marks in the text
  const VERDICTS = { found: "In the passages", elsewhere: "In another passage", altered: "Not as the passage has it", "not there": "Not in the passages" };

  /** Marks the end of each checked sentence, and its differing words. Proofs count code points. */
  function markProofs(turn) {
    const letters = Array.from(turn.text);
    const inserts = turn.proofs.flatMap((proof, number) => (!VERDICTS[proof.verdict] ? [] : [
      ...proof.differing.flatMap(([start, end]) => [[start, "\ue002"], [end, "\ue003"]]),
      [proof.end, `${letters[proof.end - 1] === "`" ? "\n" : ""}\ue000${number}\ue001`],
    ]));
    let place = 0;
    const parts = inserts.filter(([at]) => at <= letters.length).flatMap(([at, mark]) => {
      const before = letters.slice(place, at).join("");
      place = at;
      return [before, mark];
    });
    return parts.join("") + letters.slice(place).join("");
  }

  function proofMark(turn, proof) {
    const verdict = VERDICTS[proof.verdict];
    const reason = plain(`${verdict}. ${proof.reason}`);
    const mark = make("button", { type: "button", class: `proof ${proof.verdict.replace(" ", "-")}`, title: reason, "aria-label": reason });
    const show = () => {
      const open = proof.link && /^https?:/.test(proof.link)
        ? make("a", { href: proof.link, target: "_blank", rel: "noreferrer" }, "Open the sentence")
        : turn.hits[proof.number - 1] && make("button", { type: "button", class: "quiet" }, "Open the passage");
      if (open?.localName === "button") open.addEventListener("click", () => openHit(turn, proof.number, mark));
      turn.note.replaceChildren(reason, ...(proof.source ? [" ", make("q", {}, plain(proof.source))] : []), ...(open ? [" ", open] : []));
    };
    mark.addEventListener("focus", show);
    mark.addEventListener("click", show);
    return mark;
  }

  // --- from a citation to its passage, and back

  const hitOf = (id) => [...results.querySelectorAll(".hit")].find((hit) => hit.dataset.hit === id);

  async function openHit(turn, number, mark) {
    const { id } = turn.hits[number - 1];
    if (!hitOf(id)) await showHits(turn.query);
    const hit = hitOf(id);
    if (!hit) {
      status.textContent = `Passage ${number} is no longer among the hits.`;
      return;
    }
    cited?.hit.classList.remove("cited");
    cited = { hit, from: mark };
    hit.classList.add("cited");
    hit.tabIndex = -1;
    hit.focus({ preventScroll: true });
    hit.scrollIntoView({ block: "start" });
    if (hit.querySelector(".text.whole")) return;
    new MutationObserver((_, observer) => { // the link that opened the section keeps the focus
      observer.disconnect();
      if (hit.contains(document.activeElement)) hit.focus({ preventScroll: true });
    }).observe(hit, { childList: true });
    hit.querySelector(".toggle")?.click();
  }

  function leaveHit() {
    if (!cited?.hit.contains(document.activeElement)) return false;
    const { hit, from } = cited;
    hit.classList.remove("cited");
    cited = null;
    if (!from.isConnected) return false;
    from.focus({ preventScroll: true });
    from.scrollIntoView({ block: "center" });
    return true;
  }

  // --- events

  button.addEventListener("click", () => {
    if (call) stop();
    else {
      const last = conversation.turns.pop();
      last?.node.remove();
      write(conversation.turns.length ? last.question : null);
    }
  });
  further.addEventListener("submit", (event) => {
    event.preventDefault();
    const question = field.value.trim();
    if (!question || call) return;
    field.value = "";
    write(question);
    button.focus({ preventScroll: true }); // the field is hidden while an answer is written
  });
  region.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // Escape would clear the search box and the answer
    stop();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !leaveHit()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);
  search.addEventListener("submit", () => { entered = true; });
  addEventListener("pagehide", stop);

  new MutationObserver(look).observe(results, { childList: true });
  look();
})();
