"""A site whose pages scripts draw, each in one of several ways, with links that only scripts make."""

import json

from tests.indexer.server import Reply, Site

JSON = {"Content-Type": "application/json"}
SCRIPT = {"Content-Type": "text/javascript"}
WAYS = ("fetch", "module", "shadow", "request", "frame")
_APP = """
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
"""


def shell(way: str = "fetch", more: str = "") -> str:
    return (
        f'<!doctype html><html lang="en" data-way="{way}"><head><title>Docs</title><link rel=stylesheet href=/a.css>'
        f"</head><body><nav><img src=/logo.png></nav><div id=root></div>"
        f'<script src="/app.js"></script>{more}</body></html>'
    )


def drawn_site(site: Site, pages: int) -> None:
    """Give a site pages /0, /1, …: each leads to the next three, and / to the first."""
    site.routes["/app.js"] = Reply(_APP.encode(), 200, SCRIPT)
    site.routes["/view.js"] = Reply(b"export const load = async from => (await fetch(from)).json();", 200, SCRIPT)
    site.routes["/"] = shell()
    site.routes["/api/.json"] = Reply(json.dumps(content("Start", range(min(1, pages)))).encode(), 200, JSON)
    for number in range(pages):
        further = range(number + 1, min(number + 4, pages))
        site.routes[f"/{number}"] = shell(WAYS[number % len(WAYS)])
        site.routes[f"/api/{number}.json"] = Reply(json.dumps(content(f"Page {number}", further)).encode(), 200, JSON)


def content(title: str, links: range) -> dict[str, object]:
    text = f"{title} tells of lamps and of their wicks, which draw the oil upwards. "
    return {"title": title, "text": text * 8, "links": [f"/{number}" for number in links]}
