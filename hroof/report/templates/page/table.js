// Tables of the page itself: sorting by a click on a header, filtering by name. Shared by the report and
// the comparison; without scripts the tables stand as they are.
const sortKey = (row, column) => {
  const cell = row.cells[column];
  if (cell.tagName === "TH") return cell.textContent;
  if (!("v" in cell.dataset)) return null;
  const value = Number(cell.dataset.v);
  return Number.isNaN(value) ? cell.dataset.v : value;
};

const inOrder = (a, b) =>
  typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

// What is not known stays at the end, whichever way the rest is sorted.
const byKey = (sign) => ([a], [b]) =>
  (a === null) - (b === null) || (a === null ? 0 : sign * inOrder(a, b));

const sortRows = (table, column, sign) => {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [sortKey(row, column), row]);
  rows.sort(byKey(sign));
  body.append(...rows.map(([, row]) => row));
};

// A header that sorts: numbers from the largest, names from the first; again the other way around.
const sortingHeader = (cell, sort) => {
  const inside = document.createElement("button");
  inside.type = "button";
  inside.textContent = cell.textContent;
  cell.replaceChildren(inside);
  inside.addEventListener("click", () => {
    const first = cell.classList.contains("num") ? "descending" : "ascending";
    const second = first === "ascending" ? "descending" : "ascending";
    const wanted = cell.getAttribute("aria-sort") === first ? second : first;
    for (const other of cell.parentElement.cells) other.removeAttribute("aria-sort");
    cell.setAttribute("aria-sort", wanted);
    sort(wanted === "ascending" ? 1 : -1);
  });
};

const searchField = (label, search) => {
  const field = document.createElement("input");
  field.className = "filter";
  field.type = "search";
  field.placeholder = label;
  field.setAttribute("aria-label", label);
  field.addEventListener("input", () => search(field.value.toLowerCase()));
  return field;
};

const namesOf = (row) =>
  [...row.querySelectorAll("th")].map((cell) => cell.textContent.toLowerCase());

const filterRows = (table, wanted) => {
  for (const row of table.tBodies[0].rows) {
    row.hidden = !namesOf(row).some((name) => name.includes(wanted));
  }
};

// Few rows need no filter.
const improveTable = (table, filterFrom = 9) => {
  [...table.tHead.rows[0].cells].forEach((cell, column) =>
    sortingHeader(cell, (sign) => sortRows(table, column, sign)));
  if (table.tBodies[0].rows.length < filterFrom) return;
  table.parentElement.before(searchField("Filter by name", (wanted) => filterRows(table, wanted)));
};
