// Creates passkeys for this page and signs decisions with them. The private key stays in the browser's passkey store. The page
// stores the person's name, the public key and the passkey's id, so that it can request exactly that passkey.
"use strict";
globalThis.gatewrightPasskey = (() => {
  const place = "gatewright-passkey";
  const byId = (id) => document.getElementById(id);
  const kept = () => { try { return JSON.parse(localStorage.getItem(place) || "null"); } catch { return null; } };
  const keep = (found) => { found ? localStorage.setItem(place, JSON.stringify(found)) : localStorage.removeItem(place); };
  const written = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const read = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
  const send = (path, document, mark) => fetch(path, {
    method: "POST", credentials: "same-origin", cache: "no-store", body: JSON.stringify(document),
    headers: { "Content-Type": "application/json", "X-Gatewright-Mark": mark },
  });

  const decide = async (form, verdict, answered, showMessage) => {
    const { person, key, id } = kept(), mark = form.dataset.mark, entered = (name) => form.elements[name]?.value || "";
    const order = { request_id: form.dataset.request, sha256: form.dataset.sha256, verdict, person, comment: entered("comment"), phrase: verdict === "approve" ? entered("phrase") : "", ...globalThis.gatewrightHanding(form, verdict) };
    const { document, challenge } = await answered(await send("/passkey/challenge", order, mark));
    const preview = form.querySelector(".signed-words");
    preview.textContent = document;
    preview.hidden = false;
    showMessage("confirm with your passkey: it signs the decision shown here");
    const allowCredentials = id ? [{ type: "public-key", id: read(id) }] : [];
    const { response } = await navigator.credentials.get({ publicKey: { challenge: read(challenge), allowCredentials, userVerification: "required" } });
    showMessage("signed; the gatekeeper checks the decision");
    const parts = { client_data: written(response.clientDataJSON), authenticator_data: written(response.authenticatorData), signature: written(response.signature) };
    return answered(await send("/passkey/decision", { document, key, ...parts }, mark));
  };

  // Browsers report a refusal and an unknown fingerprint alike, and refer to a specification.
  const why = (error) => error.name === "NotAllowedError"
    ? "the passkey did not sign: you refused, it did not recognise you, or the time expired"
    : `the passkey did not sign: ${error.message}`;

  const show = () => {
    const found = kept(), line = byId("passkey-state");
    if (found && line) line.firstChild.textContent = `The passkey of ${found.person} signs your decisions on this page: `;
    if (byId("passkey-kept")) byId("passkey-kept").textContent = found ? `This browser signs as ${found.person}, with the passkey whose public key ends in ${found.key.slice(-24)}` : "This browser has no passkey for decisions yet.";
    if (byId("forget")) byId("forget").hidden = !found;
  };

  const make = async (form) => {
    const person = form.elements.person.value.trim();
    const made = await navigator.credentials.create({ publicKey: {
      challenge: crypto.getRandomValues(new Uint8Array(32)),
      rp: { name: "Gatewright" },
      user: { id: crypto.getRandomValues(new Uint8Array(32)), name: person, displayName: person },
      pubKeyCredParams: [{ type: "public-key", alg: -7 }],
      authenticatorSelection: { residentKey: "preferred", userVerification: "required" },
      attestation: "none",
    } });
    const public_key = made.response.getPublicKey();
    if (!public_key) throw new Error("this browser does not return the passkey's public key: use another browser");
    const answer = await send("/passkey/key", { public_key: written(public_key) }, form.dataset.mark), reply = await answer.json();
    if (!answer.ok) throw new Error(`${reply.reason}: ${reply.message}`);
    keep({ person, key: reply.entry.key, id: written(made.rawId) });
    byId("roster-entry").textContent = JSON.stringify({ name: person, keys: [reply.entry] }, null, 2);
    byId("made").hidden = false;
    return `created: ${reply.fingerprint}. You can use it after the operator adds it to the roster.`;
  };
  const adopt = (form) => {
    const key = form.elements.key.value.match(/sk-ecdsa-sha2-nistp256@openssh\.com [A-Za-z0-9+/=]+/)?.[0];
    if (!key) throw new Error("that is not the public key of a passkey: it must begin with sk-ecdsa-sha2-nistp256@openssh.com");
    keep({ person: form.elements.person.value.trim(), key });
    return "saved: this browser uses that passkey";
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target, work = { "make-passkey": make, "adopt-passkey": adopt, forget: () => { keep(null); return "removed here; the passkey itself stays in your browser's passkey store"; } }[form.id];
    if (!work) return;
    event.preventDefault();
    const line = byId("passkey-answer");
    try {
      line.textContent = await work(form);
      line.dataset.kind = "good";
    } catch (error) {
      line.textContent = error instanceof DOMException ? why(error).replace("the passkey did not sign", "the browser did not create the passkey") : error.message;
      line.dataset.kind = "bad";
    }
    show();
  });
  show();
  return { kept, decide, why };
})();
