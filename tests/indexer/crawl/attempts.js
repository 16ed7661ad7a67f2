// Tries all ways of a page out to the network, and tells which were refused.
const at = "127.0.0.1:%(port)d", told = [];
const tell = async (name, attempt) => {
  const slow = new Promise((_, fail) => setTimeout(() => fail("late"), 800));
  try { await Promise.race([attempt(), slow]); told.push(name + " DONE"); } catch { told.push(name + " refused"); }
};
const element = (tag, fields) => new Promise((done, fail) =>
  document.body.append(Object.assign(document.createElement(tag), {onload: done, onerror: fail}, fields)));
const socket = make => new Promise((done, fail) => {
  const made = make(); made.onopen = made.onmessage = done; made.onerror = fail;
});
const worker = code => new Promise((done, fail) => {
  const made = new Worker(URL.createObjectURL(new Blob([code], {type: "text/javascript"})));
  made.onmessage = done; made.onerror = fail;
});
const call = servers => new Promise((done, fail) => {
  const peer = new RTCPeerConnection({iceServers: servers});
  peer.createDataChannel("a");
  peer.onicecandidate = event => event.candidate ? (/srflx|relay/.test(event.candidate.candidate) && done()) : fail();
  peer.createOffer().then(offer => peer.setLocalDescription(offer));
});
const waits = setInterval(() => document.getElementById("root").append("still trying "), 100);
Promise.all([
  tell("fetch", () => fetch(`http://${at}/`, {mode: "no-cors"})),
  tell("post", () => fetch(`http://${at}/`, {mode: "no-cors", method: "POST", body: "a"})),
  tell("localhost", () => fetch(`http://localhost:%(port)d/`, {mode: "no-cors"})),
  tell("number", () => fetch(`http://2130706433:%(port)d/`, {mode: "no-cors"})),
  tell("mapped", () => fetch(`http://[::ffff:127.0.0.1]:%(port)d/`, {mode: "no-cors"})),
  tell("kept alive", () => fetch(`http://${at}/`, {mode: "no-cors", keepalive: true})),
  tell("redirect", () => fetch("/hop", {mode: "no-cors"})),
  tell("file", () => fetch("file:///etc/passwd")),
  tell("image", () => element("img", {src: `http://${at}/a.png`})),
  tell("script", () => element("script", {src: `http://${at}/a.js`})),
  tell("style", () => element("link", {rel: "stylesheet", href: `http://${at}/a.css`}).then(() => {
    if (![...document.styleSheets].some(sheet => sheet.cssRules.length)) throw 0; })),
  tell("prefetch", () => element("link", {rel: "prefetch", href: `http://${at}/p`})),
  tell("connect", () => element("link", {rel: "preconnect", href: `http://${at}`})),
  tell("video", () => new Promise((done, fail) => Object.assign(new Audio(`http://${at}/a.mp3`),
    {onloadeddata: done, onerror: fail}).load())),
  tell("socket", () => socket(() => new WebSocket(`ws://${at}/`))),
  tell("own socket", () => socket(() => new WebSocket(`ws://${location.host}/`))),
  tell("events", () => socket(() => new EventSource(`http://${at}/`))),
  tell("stun", () => call([{urls: "stun:127.0.0.1:%(udp)d"}])),
  tell("turn", () => call([{urls: `turn:${at}?transport=tcp`, username: "a", credential: "b"}])),
  tell("transport", async () => { await new WebTransport(`https://127.0.0.1:%(udp)d/`).ready; }),
  tell("worker", () => worker(`fetch("http://${at}/", {mode: "no-cors"}).then(postMessage)`)),
  tell("imported", () => worker(`importScripts("http://${at}/a.js"); postMessage(1)`)),
  tell("shared", () => new Promise((done, fail) => {
    const made = new SharedWorker("/shared.js"); made.port.onmessage = done; made.onerror = fail; })),
  tell("service", () => navigator.serviceWorker.register("/service.js").then(found => {
    if (!found) throw 0; })),
]).then(() => {
  clearInterval(waits);
  navigator.sendBeacon(`http://${at}/beacon`, "a");
  const frame = document.createElement("iframe");
  frame.src = `http://${at}/frame`;
  document.body.append(frame);
  for (const where of ["file:///etc/passwd", `http://${at}/file.zip`]) {
    const link = Object.assign(document.createElement("a"), {href: where, download: "a"});
    document.body.append(link);
    link.click();
  }
  window.open(`http://${at}/opened`);
  document.body.insertAdjacentHTML("beforeend", `<form id=f method=post action="http://${at}/form"></form>`);
  document.getElementById("f").submit();
  location.href = `http://${at}/moved`;
  document.getElementById("root").innerHTML = `<h1>Attempts</h1><p>${told.join(", ")}</p>`;
});
