// Numbers as hroof/units.py prints them; a test in the browser holds the two together.
const DASH = "–";
const PREFIXES = ["n", "µ", "m", "", "k", "M", "G", "T", "P", "E"];
const known = (value) => typeof value === "number" && Number.isFinite(value);

const rounded = (value, digits) => Number(Math.abs(value).toPrecision(digits));

const fixed = (value, digits) => {
  if (value === 0) return "0";
  const decimals = digits - 1 - Math.floor(Math.log10(rounded(value, digits)));
  return value.toFixed(Math.min(Math.max(decimals, 0), 20));
};

const plainNumber = (value, digits = 3) => {
  if (!known(value)) return DASH;
  const size = Math.abs(value);
  if (value === 0 || (size >= 1e-4 && size < 1e6)) return fixed(value, digits);
  return Number(value.toPrecision(digits)).toExponential().replace(/e([+-])(\d)$/, "e$10$2");
};

const si = (value, unit, digits = 3) => {
  if (!known(value)) return DASH;
  if (value === 0) return `0 ${unit}`.trim();
  const power = Math.floor(Math.floor(Math.log10(rounded(value, digits))) / 3);
  const step = Math.min(Math.max(power, -3), 6);
  return `${plainNumber(value / 10 ** (3 * step), digits)} ${PREFIXES[step + 3]}${unit}`.trim();
};

const percent = (share, digits = 1) =>
  known(share) ? `${(100 * share).toFixed(digits)} %` : DASH;

const countText = (value) => {
  if (!known(value)) return DASH;
  const whole = value === Math.round(value) || value >= 100;
  return whole ? Math.round(value).toLocaleString("en-US") : plainNumber(value);
};
