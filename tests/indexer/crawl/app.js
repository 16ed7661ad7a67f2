// Draws a page in the way that its root element names, from data that a request brings.
const root = document.getElementById("root"), way = document.documentElement.dataset.way;
const html = page => `<h1>${page.title}</h1><p>${page.text}</p>` +
  page.links.map(link => `<a href="${link}">further</a>`).join(" ");
const draw = page => { document.title = page.title; root.innerHTML = html(page); };
const data = "/api" + location.pathname + ".json";
if (way === "fetch") fetch(data).then(answer => answer.json()).then(draw);
if (way === "module") import("/view.js").then(async view => draw(await view.load(data)));
if (way === "shadow") {
  customElements.define("a-page", class extends HTMLElement {
    async connectedCallback() {
      const page = await (await fetch(data)).json();
      document.title = page.title;
      this.attachShadow({mode: "open"}).innerHTML = html(page);
    }
  });
  root.innerHTML = "<a-page></a-page>";
}
if (way === "request") {
  const ask = new XMLHttpRequest();
  ask.onload = () => setTimeout(() => draw(JSON.parse(ask.responseText)), 100);
  ask.open("GET", data);
  ask.send();
}
if (way === "frame") requestAnimationFrame(async () => draw(await (await fetch(data)).json()));
