// Making elements. Names from the profile are data: they reach the page as text nodes and attribute
// values only, never as markup.
const SVG = "http://www.w3.org/2000/svg";

const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

const make = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

const button = (text, attributes, action) => {
  const element = make("button", { type: "button", ...attributes }, text);
  element.addEventListener("click", action);
  return element;
};
