// Keeps an open page as the service's state is: when the service says that something changed, the page is fetched again, and
// what differs in its live sections is put in place. What is folded open, scrolled to or focused stays so.
"use strict";
(() => {
  const stream = document.body.dataset.stream;
  const status = document.getElementById("live");
  if (!stream || !window.EventSource) return;

  const KEPT = new Set(["open"]);

  function patch(old, next) {
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || old.id !== next.id) {
      old.replaceWith(next.cloneNode(true));
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
      return;
    }
    for (const { name, value } of next.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of Array.from(old.attributes)) {
      if (!next.hasAttribute(name) && !KEPT.has(name)) old.removeAttribute(name);
    }
    const before = Array.from(old.childNodes);
    const after = Array.from(next.childNodes);
    after.forEach((child, index) => {
      if (index < before.length) patch(before[index], child);
      else old.appendChild(child.cloneNode(true));
    });
    before.slice(after.length).forEach((child) => child.remove());
  }

  let busy = false;
  let again = false;
  async function refresh() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      do {
        again = false;
        const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
        if (!answer.ok) {
          status.textContent = answer.status === 404 ? "no longer there" : "not live";
          return;
        }
        const next = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const section of document.querySelectorAll("[data-live]")) {
          const other = next.getElementById(section.id);
          if (other) patch(section, other);
        }
        document.title = next.title;
        document.documentElement.dataset.refreshes = Number(document.documentElement.dataset.refreshes || 0) + 1;
      } while (again);
    } catch {
      status.textContent = "not live";
    } finally {
      busy = false;
    }
  }

  const source = new EventSource(stream);
  source.addEventListener("change", refresh);
  source.addEventListener("open", () => { status.textContent = "live"; });
  source.addEventListener("error", () => { status.textContent = "not live: no connection to the service"; });
  window.addEventListener("pagehide", () => source.close());
})();
