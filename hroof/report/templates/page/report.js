(() => {
"use strict";
{% for part in ["dom", "units", "model", "table", "state", "axes", "chart", "controls", "nodes", "tree", "strip", "downloads", "main"] %}
{% include "page/" ~ part ~ ".js" %}

{% endfor %}
})();
