// Formatting of numbers.

export const amount = (number) => Math.round(number).toLocaleString("en-US");

export function short(number) {
  if (number < 1000) return String(Math.round(number));
  return `${(number / 1000).toFixed(number < 10_000 ? 1 : 0)}k`;
}

export function money(dollars) {
  if (dollars === 0) return "$0";
  return `$${dollars.toFixed(Math.abs(dollars) < 0.01 ? 5 : Math.abs(dollars) < 1 ? 4 : 2)}`;
}

export function share(part, whole) {
  return whole > 0 ? `${Math.round((part / whole) * 100)} %` : "0 %";
}
