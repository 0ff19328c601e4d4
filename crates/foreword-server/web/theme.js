// Light or dark theme: the system's, until the user chooses.

const KEY = "foreword-theme";

/** What was chosen before. */
export function takeTheme() {
  const theme = localStorage.getItem(KEY);
  if (theme) document.documentElement.dataset.theme = theme;
}

export function toggleTheme() {
  const { dataset } = document.documentElement;
  const dark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.theme = dark ? "light" : "dark";
  localStorage.setItem(KEY, dataset.theme);
}
