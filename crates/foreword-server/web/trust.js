// What the folder asks for, and the user's decisions.

import { get, post } from "./api.js";
import { fill, h, toast, visible } from "./dom.js";
import { sheet } from "./sheet.js";

const STANDINGS = { allowed: "Allowed", declined: "Not allowed", new: "Waiting for your decision", changed: "Changed since you decided" };

/** A banner above the chat while decisions are pending. */
export class TrustBanner {
  constructor() {
    this.node = h("div.trust-banner", { hidden: true, role: "region", "aria-label": "Restricted folder" });
  }

  async load() {
    try {
      this.show(await get("/trust"));
    } catch {
      // The page works without it; what is restricted stays restricted.
      this.node.hidden = true;
    }
  }

  show(trust) {
    const open = trust.claims.filter(waits);
    this.node.hidden = open.length === 0;
    const what = open.length === 1 ? "1 item in this folder is not used until you allow it." : `${open.length} items in this folder are not used until you allow them.`;
    fill(this.node, h("span", {}, h("strong", {}, "Restricted. "), what), h("button.plain", { type: "button", onclick: () => this.review() }, "Review"));
  }

  async review() {
    let trust;
    try {
      trust = await get("/trust");
    } catch (problem) {
      return toast(problem.message, "error");
    }
    const rows = trust.claims.map((claim) => new Row(claim));
    const save = async (event) => {
      event.preventDefault();
      const decisions = rows.map((row) => row.decision()).filter(Boolean);
      if (!decisions.length) return dialog.close();
      try {
        this.show(await post("/trust", { decisions }));
        dialog.close();
        toast("Saved. New sessions use the change at once, open sessions after a short pause.");
      } catch (problem) {
        toast(problem.message, "error");
      }
    };
    const dialog = sheet("Permissions of this folder", { wide: true, sub: trust.vault },
      h("form.sheet-body.form", { onsubmit: save },
        h("p", {}, "You can read, search and attach notes without allowing any of this. A decision applies to exactly what is shown here; after a change you are asked again."),
        trust.state_outside && h("p", {}, "Until the .foreword folder is allowed, sessions are stored in ", h("code", {}, trust.state_outside), ". The decision takes effect after a restart of the server."),
        trust.no_sandbox && trust.claims.some((claim) => claim.program) && h("p.warn", {}, `No sandbox for programs: ${trust.no_sandbox}. They would run with all of your permissions.`),
        rows.length === 0 && h("p", {}, "This folder asks for no permissions."),
        rows.map((row) => row.node),
        h("div.actions.open", {}, h("button.primary", { type: "submit" }, "Save decisions"), h("button.plain", { type: "button", onclick: () => dialog.close() }, "Cancel"))));
  }
}

const waits = (claim) => claim.standing === "new" || claim.standing === "changed";

/** One claim, with the choice about it. */
class Row {
  constructor(claim) {
    this.claim = claim;
    this.before = waits(claim) ? "later" : claim.standing;
    const name = `trust-${claim.sha256}-${claim.id}`;
    const radio = (value, label) => h("label", {}, h("input", { type: "radio", name, value, checked: this.before === value }), label);
    this.choices = h("div.trust-choices", { role: "radiogroup", "aria-label": claim.title }, radio("allowed", "Allow"), radio("declined", "Do not allow"), waits(claim) && radio("later", "Decide later"));
    this.network = h("input", { type: "checkbox", checked: claim.grants?.network ?? false });
    this.home = h("input", { type: "checkbox", checked: claim.grants?.home ?? false });
    this.node = h("section.trust-claim", {},
      h("h3", {}, claim.title),
      h("p.sub", {}, `${STANDINGS[claim.standing]} · ${claim.file}`),
      h("pre.wire.trust-effects", { tabindex: 0 }, claim.effects.map(visible).join("\n")),
      claim.diff && h("pre.wire.trust-effects", { tabindex: 0, "aria-label": "What changed" }, visible(claim.diff)),
      claim.program && h("div.trust-grants", {}, h("label", {}, this.network, "allow network access"), h("label", {}, this.home, "allow read and write access to your home folder")),
      this.choices);
  }

  /** The decision, where it is another than before. */
  decision() {
    const chosen = this.choices.querySelector("input:checked")?.value;
    const grants = { network: this.network.checked, home: this.home.checked };
    const same = chosen === this.before && (chosen !== "allowed" || (grants.network === (this.claim.grants?.network ?? false) && grants.home === (this.claim.grants?.home ?? false)));
    if (!chosen || chosen === "later" || same) return null;
    return { id: this.claim.id, sha256: this.claim.sha256, allowed: chosen === "allowed", grants: chosen === "allowed" ? grants : { network: false, home: false } };
  }
}
