"use strict";
// Reports opened hits and verdicts of a search. Pages include this script only if the server records searches.
(() => {
  const SEEN_MS = 2000; // a search is counted when its hits have been on screen for this long
  const ICONS = { good: "M2 10h4v11H2zM8 20V10l4-8c2 0 3 1 3 3l-1 4h6a2 2 0 0 1 2 2l-2 8a2 2 0 0 1-2 1z", bad: "M2 3h4v11H2zM8 4v10l4 8c2 0 3-1 3-3l-1-4h6a2 2 0 0 0 2-2l-2-8a2 2 0 0 0-2-1z" };
  const NAMES = { good: "This answers it", bad: "This does not answer it" };
  const MESSAGES = { good: "Marked as an answer", bad: "Marked as no answer", none: "No longer marked" };
  const results = document.getElementById("results");
  const count = document.getElementById("count");
  const address = new URL("api/v1/feedback", document.getElementById("search").action);
  let search = ""; // id of the search on the page
  let timer = 0; // timer until the search is counted, then 0
  let opened = new Set();
  let verdicts = new Map();

  function tell(feedback, hit) {
    clearTimeout(timer);
    timer = 0;
    const body = JSON.stringify({ search_id: search, feedback, hit });
    const headers = { "Content-Type": "application/json" };
    // The request continues if the page is closed. The page ignores errors.
    fetch(address, { method: "POST", headers, body, keepalive: true }).catch(() => {});
  }

  function button(kind, rank) {
    const element = document.createElement("button");
    element.type = "button";
    element.className = `quiet judge ${kind}`;
    element.dataset.verdict = kind;
    element.title = NAMES[kind];
    element.innerHTML = `<svg viewBox="0 0 24 24" width="16" height="16" aria-hidden="true"><path d="${ICONS[kind]}"/></svg>`;
    const name = document.createElement("span");
    name.className = "unseen";
    name.textContent = `${NAMES[kind]}: passage ${rank}`;
    element.append(name);
    return element;
  }

  function press(hit) {
    for (const mark of hit.querySelectorAll(".judge")) {
      mark.setAttribute("aria-pressed", String(verdicts.get(hit.dataset.hit) === mark.dataset.verdict));
    }
  }

  function look() {
    const latest = results.dataset.search ?? "";
    if (latest !== search) {
      clearTimeout(timer);
      [search, opened, verdicts] = [latest, new Set(), new Map()];
      timer = search ? setTimeout(tell, SEEN_MS, "seen") : 0;
    }
    if (!search) return;
    for (const hit of results.querySelectorAll(".hit[data-hit]")) {
      const tools = hit.querySelector(".tools");
      if (!tools || tools.querySelector(".judge")) continue;
      const rank = hit.id.replace("hit-", "");
      tools.append(button("good", rank), button("bad", rank));
      press(hit);
    }
  }

  function follow(event) {
    const hit = event.target.closest?.(".hit[data-hit]");
    const link = event.target.closest?.("h3 a, .section a, .also a, a.toggle, .cite");
    if (!search || !hit || !link || event.button > 1) return;
    if (opened.has(hit.dataset.hit)) return;
    opened.add(hit.dataset.hit);
    tell("opened", hit.dataset.hit);
  }

  function judge(event) {
    const mark = event.target.closest?.(".judge");
    if (!search || !mark) return;
    const hit = mark.closest(".hit");
    const verdict = verdicts.get(hit.dataset.hit) === mark.dataset.verdict ? "none" : mark.dataset.verdict;
    verdicts.set(hit.dataset.hit, verdict);
    press(hit);
    count.textContent = MESSAGES[verdict];
    tell(verdict, hit.dataset.hit);
  }

  document.addEventListener("click", follow);
  document.addEventListener("auxclick", follow); // middle button
  document.addEventListener("click", judge);
  addEventListener("pagehide", () => { if (timer) tell("seen"); });
  new MutationObserver(look).observe(results, { attributeFilter: ["data-search"], childList: true, subtree: true });
  look();
})();
