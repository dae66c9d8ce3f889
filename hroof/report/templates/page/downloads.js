// The embedded data as files. Nothing is fetched: the browser writes what is in the page already.
const EXPORT = "hroof-data";

const save = (name, type, text) => {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
};

// A spreadsheet must not take a name for a formula: see hroof/report/plain.py.
const csvCell = (value) => {
  if (value === null || value === undefined) return "";
  if (typeof value !== "string") return String(value);
  const safe = (/^[=+\-@\t\r]/.test(value) ? `'${value}` : value).replace(/\r/g, "\\r");
  return /[",\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
};

const inside = (row, path) =>
  path.reduce((value, key) => (value === null || value === undefined ? null : value[key]), row);

const cellOf = (value) => csvCell(Array.isArray(value) ? value.join(" ") : value);

const asCsv = (data) => {
  const lines = data.rows.map((row) => view.csv.map(([, path]) => cellOf(inside(row, path))).join(","));
  return `${[view.csv.map(([name]) => csvCell(name)).join(","), ...lines].join("\n")}\n`;
};

const makeDownloads = (place) => {
  const text = document.getElementById(EXPORT).textContent;
  place.append(make("p", { class: "tools" },
    button("Rows as CSV", {}, () => save("hroof-rows.csv", "text/csv", asCsv(JSON.parse(text)))),
    button("Everything as JSON", {}, () => save("hroof-report.json", "application/json", text))));
};
