// A decision on this page: the request as it waits, a signature by the agent where the person sits, and on to the gatekeeper.
// The page holds no key; the code of the agent lets this page ask it, and the agent asks the person each time.
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
    let told = {};
    try { told = await answer.json(); } catch { /* no document: the status says it */ }
    if (answer.ok) return told;
    throw new Refusal([told.reason, told.message || `the answer was ${answer.status}`, told.advice].filter(Boolean).join(": "));
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

  const tell = (line, words, kind) => { if (line) { line.textContent = words; line.dataset.kind = kind; } };

  // A name counts with its own button alone; one that was typed and then left goes nowhere.
  const handing = globalThis.gatewrightHanding = (form, verdict) => {
    if (verdict !== "delegate") return {};
    const name = (form.elements.delegate_to?.value || "").trim();
    if (!name) throw new Refusal("name the person to whom it is handed on");
    return { delegate_to: name };
  };

  const decide = async (form, verdict) => {
    const line = form.querySelector(".answer"), passkey = globalThis.gatewrightPasskey;
    if (passkey?.kept()) {
      try { return await passkey.decide(form, verdict, answered, (words) => tell(line, words, "waiting")); }
      catch (error) { throw error instanceof DOMException ? new Refusal(passkey.why(error)) : error; }
    }
    if (!code()) {
      byId("pairing").open = true;
      byId("pair").elements.code.focus();
      throw new Refusal("give the code of your signing agent first, above, or make a passkey");
    }
    const waiting = await fetch(`/requests/${encodeURIComponent(form.dataset.request)}?sha256=${form.dataset.sha256}`, { cache: "no-store" });
    if (!waiting.ok) await answered(waiting);
    const said = (name) => form.elements[name]?.value || "";
    tell(line, "look at the terminal of your signing agent: it shows what is signed, and asks", "waiting");
    const signed = await askAgent("/sign", { request: await waiting.text(), verdict, comment: said("comment"), phrase: said("phrase"), ...handing(form, verdict) });
    tell(line, "signed; the gatekeeper looks at it", "waiting");
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
        tell(byId("paired"), `decisions are signed for ${found.person}, with ${found.key}`, "good");
      } catch (error) { tell(byId("paired"), error.message, "bad"); }
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
      tell(line, `${found.verdict}: recorded`, "good");
      tell(byId("said"), `${found.request_id}: ${found.verdict}, recorded; the run stands in ${found.state}`, "good");
      if (found.verdict === "delegate") { // it waits on, for another person, who may sit here too
        for (const each of buttons) each.disabled = false;
        delete form.dataset.busy;
      }
    } catch (error) {
      tell(line, error instanceof Refusal ? error.message : "the console cannot be reached", "bad");
      for (const each of buttons) each.disabled = false;
      delete form.dataset.busy;
    }
  });
  // Enter in a field would press the first button, which is yes.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("form.decide input")) event.preventDefault();
  });
})();
