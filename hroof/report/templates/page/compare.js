(() => {
"use strict";
document.documentElement.classList.add("scripted");
{% include "page/table.js" %}

for (const table of document.querySelectorAll("table.changes")) improveTable(table);
})();
