// What changed between two texts, line by line.

/** Lines that are compared with each other at most; the table of all pairs has this many rows and columns. */
const MOST = 1500;

/** Lines around a change that are shown with it. */
const AROUND = 3;

/** The lines of both texts in order, each with `same`, `gone` or `new`. */
export function compare(before, now) {
  let start = 0;
  while (start < before.length && start < now.length && before[start] === now[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < now.length - start && before[before.length - 1 - end] === now[now.length - 1 - end]) end += 1;
  const same = (text) => ({ kind: "same", text });
  return [...now.slice(0, start).map(same), ...middle(before.slice(start, before.length - end), now.slice(start, now.length - end)), ...now.slice(now.length - end).map(same)];
}

function middle(before, now) {
  const gone = (text) => ({ kind: "gone", text });
  const added = (text) => ({ kind: "new", text });
  // Two long texts with nothing in common at either end: told whole, as the table would not be worth its time.
  if (!before.length || !now.length || before.length > MOST || now.length > MOST) return [...before.map(gone), ...now.map(added)];
  // The longest row of lines that both have, from the end to the start.
  const wide = now.length + 1;
  const best = new Uint16Array((before.length + 1) * wide);
  for (let a = before.length - 1; a >= 0; a -= 1) {
    for (let b = now.length - 1; b >= 0; b -= 1) {
      best[a * wide + b] = before[a] === now[b] ? best[(a + 1) * wide + b + 1] + 1 : Math.max(best[(a + 1) * wide + b], best[a * wide + b + 1]);
    }
  }
  const out = [];
  let [a, b] = [0, 0];
  while (a < before.length && b < now.length) {
    if (before[a] === now[b]) {
      out.push({ kind: "same", text: now[b] });
      [a, b] = [a + 1, b + 1];
    } else if (best[(a + 1) * wide + b] >= best[a * wide + b + 1]) {
      out.push(gone(before[a]));
      a += 1;
    } else {
      out.push(added(now[b]));
      b += 1;
    }
  }
  return [...out, ...before.slice(a).map(gone), ...now.slice(b).map(added)];
}

/** The changes with a few lines around each; where lines are left out, `kind` is `skip` and `many` tells how many. */
export function shortened(lines) {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind !== "same") near.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
  });
  const out = [];
  lines.forEach((line, at) => {
    if (near[at]) out.push(line);
    else if (out.at(-1)?.kind === "skip") out.at(-1).many += 1;
    else out.push({ kind: "skip", many: 1 });
  });
  return out;
}
