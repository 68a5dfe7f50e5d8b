// Loads a file's lines when a person opens it, and the list of files that match a filter. Each address contains the id of the
// shown change: the server refuses it when another change replaces that one. Without this script the links lead to pages.
"use strict";
(() => {
  const parser = new DOMParser();
  const part = (address, more = {}) => {
    const url = new URL(address, location.href);
    for (const [name, value] of Object.entries({ part: "1", ...more })) url.searchParams.set(name, value);
    return url;
  };
  // The page's own server escapes the markup, and the content policy runs no script in it.
  const load = async (url) => {
    const answer = await fetch(url, { credentials: "same-origin" });
    return [...parser.parseFromString(await answer.text(), "text/html").body.childNodes].map((each) => document.adoptNode(each));
  };
  const failed = (address) => {
    const line = document.createElement("p"), link = document.createElement("a");
    line.className = "why";
    line.setAttribute("role", "alert");
    link.href = address;
    link.textContent = "This page cannot load the lines. Open the page of this file";
    line.append(link);
    return [line];
  };

  const show = async (file) => {
    const address = file.dataset.part;
    if (!address || file.dataset.loaded) return;
    file.dataset.loaded = "yes";
    file.setAttribute("aria-busy", "true");
    let lines;
    try { lines = await load(part(address)); }
    catch { lines = failed(address); delete file.dataset.loaded; }
    file.replaceChildren(file.querySelector("summary"), ...lines);
    file.removeAttribute("aria-busy");
  };
  // `toggle` events do not bubble.
  document.addEventListener("toggle", (event) => {
    if (event.target.matches?.("details[data-part]") && event.target.open) show(event.target);
  }, true);
  document.addEventListener("click", async (event) => {
    const link = event.target.closest?.("a[data-more]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const line = link.parentElement;
    try { line.replaceWith(...await load(part(link.href))); }
    catch { location.href = link.href; }
  });

  let waiting = 0, asked = 0;
  const filter = async (field) => {
    const number = ++asked;
    try {
      const found = await load(part(field.dataset.files, { match: field.value }));
      if (number !== asked) return;
      document.getElementById("file-tree").replaceChildren(...found);
      document.getElementById("files-status").textContent = document.getElementById("files-shown")?.textContent || "Showing all files";
    } catch { /* the list does not change; the button loads the page */ }
  };
  document.addEventListener("input", (event) => {
    if (!event.target.matches("input[data-files]")) return;
    clearTimeout(waiting);
    waiting = setTimeout(filter, 150, event.target);
  });
  document.addEventListener("submit", (event) => {
    const field = event.target.querySelector("input[data-files]");
    if (field) { event.preventDefault(); filter(field); }
  });

  // Opens the target of a link, and loads its file first if necessary.
  const reveal = async () => {
    const name = decodeURIComponent(location.hash.slice(1));
    if (!name) return;
    const number = (/^file-(\d+)/.exec(name) || [])[1], field = document.querySelector("input[data-files]");
    let file = number && document.getElementById(`file-${number}`);
    if (number && !file && field) { // the filter hides it, or the list is truncated
      field.value = "";
      await filter(field);
      file = document.getElementById(`file-${number}`);
      if (!file) { location.href = field.dataset.files.replace("?", `/${number}?`); return; }
    }
    if (file?.matches("details[data-part]")) { file.open = true; await show(file); }
    const target = document.getElementById(name);
    for (let fold = target?.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
    target?.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  reveal();

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const by = { "]": 1, "[": -1 }[event.key];
    const files = by ? [...document.querySelectorAll("details.file > summary")] : [];
    if (!files.length) return;
    const now = files.findIndex((each) => each.parentElement.contains(document.activeElement));
    const next = files[now < 0 ? (by > 0 ? 0 : files.length - 1) : Math.min(files.length - 1, Math.max(0, now + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  });
})();
