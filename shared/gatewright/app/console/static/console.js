// Updates the page from the ledger's events, and handles the keyboard shortcuts. It never turns text into markup: the page's own
// server escapes all markup. The page parses it into an inert document, and the content policy runs no script in it.
"use strict";
(() => {
  const body = document.body;
  const view = body.dataset.view;
  const parser = new DOMParser();
  let at = body.dataset.at, source = null, heard = Date.now(), retry = 0, fetching = null, again = false;

  const byId = (id) => document.getElementById(id);
  const state = (live) => {
    const line = byId("link-state");
    if (!line) return;
    line.dataset.connected = live ? "yes" : "no";
    const text = live ? "live" : "not connected";
    if (line.textContent !== text) line.textContent = text;
  };

  // A restarted console does not know old sign-ins. The next attempt detects a sign-in in another tab.
  const signedOut = async () => {
    try {
      const answer = await fetch("/system", { credentials: "same-origin", redirect: "manual" });
      if (answer.type !== "opaqueredirect" && answer.status !== 401) return false;
    } catch { return false; }
    const line = byId("link-state");
    if (line && !line.querySelector("a")) {
      const link = document.createElement("a");
      link.href = "/sign-in";
      link.textContent = "signed out: sign in again";
      line.replaceChildren(link);
    }
    return true;
  };

  const span = (milliseconds) => {
    const seconds = Math.max(0, Math.floor(milliseconds / 1000));
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
      if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
    return `${seconds} s`;
  };
  const tick = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const passed = Date.now() - Date.parse(time.dateTime), ahead = time.textContent.startsWith("in ");
      if (ahead && passed < 0) time.textContent = `in ${span(-passed)}`;
      else if (ahead || time.textContent.endsWith(" ago")) time.textContent = `${span(passed)} ago`;
    }
  };

  const place = (row) => {
    const old = byId(row.id);
    const focused = old && old.contains(document.activeElement);
    const made = document.adoptNode(parser.parseFromString(row.html, "text/html").querySelector("li"));
    if (old) old.remove();
    const list = byId(`list-${row.stage}`);
    if (!made || !list) return;
    const order = made.dataset.order;
    let before = null;
    for (const each of list.children) if (each.dataset.order < order) { before = each; break; }
    list.insertBefore(made, before);
    made.classList.add("moved");
    if (["landed", "done", "failed"].includes(row.stage))
      while (list.children.length > Number(body.dataset.most)) list.lastElementChild.remove();
    if (focused) made.querySelector("a.line").focus({ preventScroll: true });
  };

  // Expandable parts by their id, or else their position; parts with `data-keep` keep their own state.
  const folds = (root) => [...root.querySelectorAll("details")].filter((each) => !each.closest("[data-keep]")).map((each, place) => [each, each.id || place]);

  const refresh = async () => {
    if (fetching) { again = true; return; }
    let failed = false;
    fetching = true;
    try {
      const answer = await fetch(location.pathname + location.search, { credentials: "same-origin" });
      const page = parser.parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live"), old = byId("live");
      if (answer.ok && fresh && old) {
        // Forms keep their input and the focus.
        const focused = document.activeElement, held = [...old.querySelectorAll("[data-keep]")];
        const open = new Set(folds(old).filter(([each]) => each.open).map(([, name]) => name));
        old.replaceWith(document.adoptNode(fresh));
        for (const [each, name] of folds(fresh)) if (open.has(name)) each.open = true;
        for (const each of held) { const anew = byId(each.id); if (anew) anew.replaceWith(each); }
        if (focused && focused !== document.activeElement && fresh.contains(focused)) focused.focus({ preventScroll: true });
        body.dataset.needs = page.body.dataset.needs;
      }
    } catch { failed = true; }
    fetching = null;
    if (again || failed) { again = false; setTimeout(refresh, failed ? 1000 : 100); }
  };

  // An agent's report as text, never as markup. A page that was rendered again already has some reports.
  const addReport = (report) => {
    const list = byId("agent-words");
    if (!list || byId(`activity-${report.number}`)) return;
    // Only the newest momentary report of each kind is shown, and a complete message replaces its parts.
    const moment = report.momentary ? report.event : "text";
    for (const old of list.querySelectorAll("[data-now]")) if (old.dataset.now === `${report.task} ${moment}`) old.remove();
    const line = document.createElement("li");
    line.id = `activity-${report.number}`;
    if (report.momentary) line.dataset.now = `${report.task} ${moment}`;
    for (const [name, text] of [["code", report.task], ["b", report.event], ["span", report.text]]) {
      const part = document.createElement(name);
      part.textContent = text;
      line.append(part, " ");
    }
    list.append(line);
    while (list.children.length > 200) list.firstElementChild.remove();
    list.dataset.heard = report.number;
  };

  const update = (event) => {
    const changes = JSON.parse(event.data);
    at = event.lastEventId || at;
    const count = byId("needs-count");
    if (count) count.textContent = changes.needs;
    for (const id of changes.gone || []) { const old = byId(id); if (old && old.matches("li.run")) old.remove(); }
    for (const row of changes.rows || []) place(row);
    if ((changes.rows || []).length && byId("empty")) byId("empty").remove();
    for (const [stage, number] of Object.entries(changes.counts || {})) {
      const shown = document.querySelector(`[data-count="${stage}"]`);
      if (shown) shown.textContent = number;
    }
    for (const report of changes.activities || []) addReport(report);
    if (changes.refresh) refresh();
    body.dataset.at = at;
  };

  const connect = () => {
    if (source) source.close();
    const query = new URLSearchParams(view === "board" ? location.search : "");
    query.set("view", view); query.set("after", at); query.set("needs", body.dataset.needs || "");
    if (body.dataset.run) query.set("run", body.dataset.run);
    if (byId("agent-words")) query.set("heard", byId("agent-words").dataset.heard);
    source = new EventSource(`/events?${query}`);
    const listen = (kind, take) => source.addEventListener(kind, (event) => { heard = Date.now(); retry = 0; take(event); });
    listen("state", (event) => state(JSON.parse(event.data).connected));
    listen("beat", () => {});
    listen("update", update);
    listen("resync", () => { source.close(); location.reload(); });
    source.onerror = async () => {
      source.close();
      const out = await signedOut();
      if (!out) state(false);
      setTimeout(connect, out ? 3000 : Math.min(500, 125 * 2 ** retry++));
    };
  };
  const wake = () => { if (!document.hidden && Date.now() - heard > 15000) { heard = Date.now(); connect(); } };

  const look = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch("/system", { credentials: "same-origin" });
      const fresh = parser.parseFromString(await answer.text(), "text/html").getElementById("system"), old = byId("system");
      if (!answer.ok || !fresh || !old) return;
      fresh.open = old.open;
      // The focused line stays, and only its text changes.
      const summary = old.querySelector("summary");
      summary.textContent = fresh.querySelector("summary").textContent;
      old.className = fresh.className;
      old.replaceChildren(summary, ...[...fresh.childNodes].filter((each) => each.nodeName !== "SUMMARY").map((each) => document.adoptNode(each)));
    } catch { /* the connection state shows the failure */ }
  };
  if (view === "board") { look(); setInterval(look, 15000); document.addEventListener("visibilitychange", look); }

  // Merge queues have a stream of their own, which the ledger's events do not cover.
  if (view === "merge") setInterval(() => { if (!document.hidden) refresh(); }, 5000);

  if (view) {
    connect();
    document.addEventListener("visibilitychange", wake);
    window.addEventListener("online", wake);
    setInterval(wake, 5000);
    setInterval(tick, 10000);
  }

  let prefix = 0;
  const step = (by) => {
    const lines = [...document.querySelectorAll("a.line")];
    const now = lines.findIndex((line) => line.closest("li, p").contains(document.activeElement));
    const next = lines[now < 0 ? (by > 0 ? 0 : lines.length - 1) : Math.min(lines.length - 1, Math.max(0, now + by))];
    if (next) next.focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const second = Date.now() - prefix < 1500;
    prefix = 0;
    const place = { b: "/", n: "/needs", r: "/repositories", m: "/merge", a: "/agents", p: "/policies" }[event.key];
    if (second && place) { location.href = place; return; }
    if (event.key === "g") prefix = Date.now();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/" && byId("search")) { event.preventDefault(); byId("search").focus(); }
    else if (event.key === "?" && byId("help") && !byId("help").open) byId("help").showModal();
  });
  document.addEventListener("click", (event) => {
    if (event.target.id === "help-button") byId("help").showModal();
    if (event.target.matches("button.copy")) {
      const code = event.target.parentElement.querySelector("code");
      navigator.clipboard?.writeText(code.textContent).then(() => { event.target.textContent = "Copied"; });
    }
  });
})();
