// Requests the gates' verdict on the form, half a second after the last change. The answer is markup of this server, which
// escapes every text in it. The page parses it into an inert document.
"use strict";
(() => {
  const form = document.getElementById("order");
  const parser = new DOMParser();
  const LONGEST_WAIT = 10000;
  let timer = 0, asking = false, again = false, sent = false, failures = 0;

  const chosen = () => {
    const maker = new FormData(form).get("maker");
    for (const each of form.querySelectorAll("[data-maker]")) each.hidden = each.dataset.maker !== maker;
  };
  const check = async () => {
    if (asking) { again = true; return; }
    asking = true;
    let failed = true;
    try {
      const answer = await fetch("/submit/check", { method: "POST", body: new URLSearchParams(new FormData(form)), credentials: "same-origin" });
      const part = parser.parseFromString(await answer.text(), "text/html").getElementById("check");
      if (part) document.getElementById("check").replaceWith(document.adoptNode(part));
      failed = !part && (answer.status === 429 || answer.status >= 500);
    } catch { /* the connection state shows the failure */ }
    asking = false;
    failures = failed ? failures + 1 : 0;
    if (again) { again = false; check(); }
    // The server was busy or unreachable: the form is still unchecked.
    else if (failed) { clearTimeout(timer); timer = setTimeout(check, Math.min(500 * 2 ** failures, LONGEST_WAIT)); }
  };
  const soon = () => { clearTimeout(timer); timer = setTimeout(check, 500); };

  // The branches of a repository with runs. Other repositories have no suggestions, and the field accepts any branch.
  let listed = "";
  const branches = async () => {
    const repository = form.elements.repository.value.trim();
    if (!repository || repository === listed) return;
    listed = repository;
    try {
      const answer = await fetch(`/submit/branches?${new URLSearchParams({ repository })}`, { credentials: "same-origin" });
      const part = parser.parseFromString(await answer.text(), "text/html").getElementById("branches");
      if (answer.ok && part && listed === repository) document.getElementById("branches").replaceWith(document.adoptNode(part));
    } catch { /* the field accepts any branch */ }
  };
  form.elements.repository.addEventListener("change", branches);
  form.addEventListener("input", () => { chosen(); soon(); });
  form.addEventListener("submit", (event) => { if (sent) event.preventDefault(); sent = true; });
  window.addEventListener("pageshow", () => { sent = false; chosen(); });
  chosen();
  branches();
})();
