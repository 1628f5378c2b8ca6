// Keeps the page as it is pushed: puts elements in place by their ids, and asks about the chosen flows again.
"use strict";
(() => {
  const AGAIN_MS = 1000;
  let seen = Number(document.body.dataset.frame);
  let stream = null;
  let held = false;
  let asking = false;
  let asked = 0;
  let shown = null;

  const status = document.createElement("p");
  status.id = "status";
  status.setAttribute("role", "status");
  const hold = document.createElement("button");
  hold.id = "hold";
  const bar = document.createElement("div");
  bar.className = "bar";
  bar.append(status, hold);
  document.body.prepend(bar);

  const say = (text) => { if (status.textContent !== text) status.textContent = text; };

  // What finds a focused element in the HTML that replaces it.
  function selector(element) {
    if (element.id) return "#" + CSS.escape(element.id);
    const link = element.getAttribute("href");
    return link ? `a[href="${CSS.escape(link)}"]` : null;
  }

  // What a reader has done to an element, which its successor is to have as well.
  function keep(element) {
    return element && {
      focused: element.contains(document.activeElement) ? selector(document.activeElement) : null,
      open: [...element.querySelectorAll("details[open]")].map((details) => details.id),
      scrolled: [...element.querySelectorAll(".wide")].map((wide) => [wide.scrollLeft, wide.scrollTop]),
    };
  }

  function give(element, { focused, open, scrolled }) {
    open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
    [...element.querySelectorAll(".wide")].forEach((wide, at) => {
      const [left, top] = scrolled[at] ?? [0, 0];
      if (left || top) wide.scrollTo({ left, top, behavior: "instant" });
    });
    const found = focused && (element.matches(focused) ? element : element.querySelector(focused));
    found?.focus({ preventScroll: true });
  }

  // Puts elements in place: all is read before anything is written, so that the page is laid out once.
  function apply(changes) {
    const top = window.scrollY;
    const kept = changes.map(([id]) => keep(document.getElementById(id)));
    changes.forEach(([id, html], at) => { if (kept[at]) document.getElementById(id).outerHTML = html; });
    kept.forEach((state, at) => {
      const element = state && document.getElementById(changes[at][0]);
      if (element) give(element, state);
    });
    if (window.scrollY !== top) window.scrollTo({ top, behavior: "instant" });
  }

  // Marks the paths of the chosen flows on the map.
  function mark() {
    document.querySelectorAll("#map .on").forEach((element) => element.classList.remove("on"));
    for (const way of document.querySelectorAll("#flow [data-path]")) {
      const names = JSON.parse(way.dataset.path);
      const hops = new Set(names.slice(1).flatMap((name, at) => [[names[at], name], [name, names[at]]]).map((hop) => JSON.stringify(hop)));
      document.querySelectorAll("#map [data-ends]").forEach((link) => link.classList.toggle("on", hops.has(link.dataset.ends) || link.classList.contains("on")));
      document.querySelectorAll("#map [data-node]").forEach((node) => node.classList.toggle("on", names.includes(node.dataset.node) || node.classList.contains("on")));
    }
  }

  const chosen = () => new URLSearchParams(location.search).get("flow");
  // The flow whose answers the page shows.
  let answered = chosen();

  // Asks about the chosen flows, one question at a time.
  async function ask() {
    if (asking) return;
    asking = true;
    asked = performance.now();
    const flow = chosen();
    if (flow !== answered) document.getElementById("flow")?.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch("/flow" + (flow ? "?flow=" + encodeURIComponent(flow) : ""));
      const text = await answer.text();
      if (!answer.ok) say(text);
      else if (flow === chosen() && text !== shown) apply([["flow", shown = text]]);
    } catch { /* The stream says that nothing answers. */ }
    asking = false;
    answered = flow;
    document.getElementById("flow")?.removeAttribute("aria-busy");
    mark();
    if (flow !== chosen()) ask();
  }

  function take(event) {
    const began = performance.now();
    const changes = JSON.parse(event.data);
    // A section that the page does not have yet, such as that of a program that was started meanwhile. A page that
    // is new has what there is.
    if (began > 5000 && changes.some(([id, html]) => html && !document.getElementById(id))) {
      location.reload();
      return;
    }
    apply(changes);
    seen = Number(event.lastEventId);
    document.body.dataset.frame = seen;
    mark();
    // The longest that an event took, in milliseconds, for whoever measures it.
    document.body.dataset.took = Math.max(Number(document.body.dataset.took ?? 0), performance.now() - began);
    say("live");
    if (chosen() && performance.now() - asked > AGAIN_MS) ask();
  }

  // A page that nobody sees has no stream.
  function connect() {
    stream?.close();
    stream = null;
    hold.textContent = held ? "go on" : "hold";
    hold.title = held ? "Follow what changes again" : "Keep the page as it is now";
    if (held || document.hidden) {
      say("held");
      return;
    }
    stream = new EventSource("/events?seen=" + seen);
    stream.onmessage = take;
    stream.onopen = () => say("live");
    stream.onerror = () => {
      say("no answer: trying again");
      // A refusal ends a stream for good.
      if (stream?.readyState === EventSource.CLOSED) setTimeout(connect, 5000);
    };
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='/?flow='], a#leave");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    history.pushState(null, "", link.getAttribute("href"));
    ask().then(() => document.getElementById("flow")?.scrollIntoView({ block: "nearest" }));
  });
  document.addEventListener("submit", (event) => {
    const action = event.submitter?.getAttribute("formaction");
    if (!action) return;
    event.preventDefault();
    fetch(action, { method: "POST", redirect: "manual" }).catch(() => {});
  });
  window.addEventListener("popstate", ask);
  document.addEventListener("visibilitychange", connect);
  hold.addEventListener("click", () => { held = !held; connect(); });
  connect();
  mark();
})();
