// What the folder asks for beyond being read, and the decisions about it.

import { get, post } from "./api.js";
import { fill, h, toast, visible } from "./dom.js";
import { sheet } from "./sheet.js";

const STANDINGS = { allowed: "Allowed", declined: "Not allowed", new: "Waits for your decision", changed: "Changed since you decided" };

/** A line above the chat while something waits for a decision. */
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
    const what = open.length === 1 ? "1 thing in this folder is not used until you allow it." : `${open.length} things in this folder are not used until you allow them.`;
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
        toast("Saved. New sessions use it at once; open ones after a short pause.");
      } catch (problem) {
        toast(problem.message, "error");
      }
    };
    const dialog = sheet("What this folder asks for", { wide: true, sub: trust.vault },
      h("form.sheet-body.form", { onsubmit: save },
        h("p", {}, "Notes are read, searched and attached without any of this. What you allow holds for exactly what is shown here; a change asks again."),
        trust.state_outside && h("p", {}, "Until its own state is allowed, sessions are kept in ", h("code", {}, trust.state_outside), ". That decision takes effect when the server starts again."),
        trust.no_sandbox && trust.claims.some((claim) => claim.program) && h("p.warn", {}, `There is no sandbox for programs: ${trust.no_sandbox}. They would run with all of your rights.`),
        rows.length === 0 && h("p", {}, "It asks for nothing."),
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
      claim.program && h("div.trust-grants", {}, h("label", {}, this.network, "may use the network"), h("label", {}, this.home, "may read and change your home folder")),
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
