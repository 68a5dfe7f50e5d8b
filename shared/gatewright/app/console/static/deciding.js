// Sends a decision: it loads the pending request, gets a signature from the person's signing agent, and sends both to the
// gatekeeper. The page holds no key. The agent's code lets the page request a signature, and the agent asks the person each time.
"use strict";
(() => {
  const agent = document.body.dataset.agent;
  const place = "gatewright-agent-code";
  const byId = (id) => document.getElementById(id);
  const code = (given) => {
    try {
      if (given !== undefined) localStorage.setItem(place, given);
      return localStorage.getItem(place) || "";
    } catch { return given || ""; }
  };
  class Refusal extends Error {}

  const answered = async (answer) => {
    let reply = {};
    try { reply = await answer.json(); } catch { /* no document: the status is enough */ }
    if (answer.ok) return reply;
    throw new Refusal([reply.reason, reply.message || `the answer was ${answer.status}`, reply.advice].filter(Boolean).join(": "));
  };
  const askAgent = async (path, order) => {
    const headers = { Authorization: `Bearer ${code()}` };
    if (order) headers["Content-Type"] = "application/json";
    let answer;
    try {
      answer = await fetch(agent + path, { method: order ? "POST" : "GET", headers, body: order && JSON.stringify(order), credentials: "omit", cache: "no-store" });
    } catch {
      byId("pairing").open = true;
      throw new Refusal(`no signing agent answers at ${agent}: start \`gatewright sign-agent --console ${location.origin}\` in a terminal`);
    }
    if (answer.status === 401) byId("pairing").open = true;
    return answered(answer);
  };

  const showMessage = (line, text, kind) => { if (line) { line.textContent = text; line.dataset.kind = kind; } };

  // Only the delegate button uses the name; the other buttons ignore it.
  const handing = globalThis.gatewrightHanding = (form, verdict) => {
    if (verdict !== "delegate") return {};
    const name = (form.elements.delegate_to?.value || "").trim();
    if (!name) throw new Refusal("no delegate is named: name the person who decides in your place");
    return { delegate_to: name };
  };

  const decide = async (form, verdict) => {
    const line = form.querySelector(".answer"), passkey = globalThis.gatewrightPasskey;
    if (passkey?.kept()) {
      try { return await passkey.decide(form, verdict, answered, (text) => showMessage(line, text, "waiting")); }
      catch (error) { throw error instanceof DOMException ? new Refusal(passkey.why(error)) : error; }
    }
    if (!code()) {
      byId("pairing").open = true;
      byId("pair").elements.code.focus();
      throw new Refusal("no signing agent or passkey is connected: give the code of your signing agent above, or create a passkey");
    }
    const waiting = await fetch(`/requests/${encodeURIComponent(form.dataset.request)}?sha256=${form.dataset.sha256}`, { cache: "no-store" });
    if (!waiting.ok) await answered(waiting);
    const entered = (name) => form.elements[name]?.value || "";
    showMessage(line, "your signing agent shows the decision in its terminal: confirm it there", "waiting");
    const signed = await askAgent("/sign", { request: await waiting.text(), verdict, comment: entered("comment"), phrase: entered("phrase"), ...handing(form, verdict) });
    showMessage(line, "signed; the gatekeeper checks the decision", "waiting");
    const headers = { "Content-Type": "application/json", "X-Gatewright-Mark": form.dataset.mark };
    return answered(await fetch("/decisions", { method: "POST", headers, body: JSON.stringify(signed), credentials: "same-origin" }));
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.matches("form.pair")) {
      event.preventDefault();
      code(form.elements.code.value.trim());
      form.reset();
      try {
        const found = await askAgent("/agent");
        showMessage(byId("paired"), `the agent signs your decisions as ${found.person}, with ${found.key}`, "good");
      } catch (error) { showMessage(byId("paired"), error.message, "bad"); }
      return;
    }
    if (!form.matches("form.decide")) return;
    event.preventDefault();
    if (form.dataset.busy) return;
    const line = form.querySelector(".answer"), buttons = form.querySelectorAll("button");
    form.dataset.busy = "yes";
    for (const each of buttons) each.disabled = true;
    try {
      const found = await decide(form, event.submitter?.value);
      showMessage(line, `${found.verdict}: recorded`, "good");
      showMessage(byId("answer"), `${found.request_id}: ${found.verdict}, recorded; the run is in state ${found.state}`, "good");
      if (found.verdict === "delegate") { // the request stays pending, and the other person may use this browser too
        for (const each of buttons) each.disabled = false;
        delete form.dataset.busy;
      }
    } catch (error) {
      showMessage(line, error instanceof Refusal ? error.message : "this page cannot reach the console: check that it runs", "bad");
      for (const each of buttons) each.disabled = false;
      delete form.dataset.busy;
    }
  });
  // Enter in a field would press the first button, which approves.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("form.decide input")) event.preventDefault();
  });
})();
