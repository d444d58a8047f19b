// Runs inside the page; see looks.rs.

const faults = [];
const shown = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
const called = (element) => {
  const by = element.getAttribute('aria-labelledby');
  const label = element.labels?.[0]?.textContent ?? '';
  return (element.getAttribute('aria-label') || (by && document.getElementById(by)?.textContent) || label || element.textContent || '').trim();
};
const what = (element) => `<${element.localName} class="${element.getAttribute('class') ?? ''}"> ${element.textContent.slice(0, 40)}`;

const titles = [...document.querySelectorAll('h1')];
if (titles.length !== 1) faults.push(`it has ${titles.length} titles`);
if (!document.querySelector('main')) faults.push('it has no main part');
if (!document.documentElement.lang) faults.push('its language is not said');
for (const element of document.querySelectorAll('button, a, input, select, textarea, [role="img"]')) {
  if (shown(element) && !called(element)) faults.push(`it has no name: ${what(element)}`);
}
for (const image of document.querySelectorAll('img')) if (!image.hasAttribute('alt')) faults.push('a picture has no text');
const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) faults.push(`${id} is there twice`);
if (document.documentElement.scrollWidth > innerWidth) faults.push(`it is ${document.documentElement.scrollWidth} wide on a screen of ${innerWidth}`);

// Contrast, as WCAG counts it: 4.5 for text, 3 for large text.
const parse = (colour) => {
  const numbers = colour.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
  return { rgb: numbers.slice(0, 3), alpha: numbers[3] ?? 1 };
};
const light = ([r, g, b]) => {
  const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const mix = (over, under, alpha) => over.map((value, at) => value * alpha + under[at] * (1 - alpha));
const ground = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    const { rgb, alpha } = parse(getComputedStyle(at).backgroundColor);
    if (alpha > 0) layers.push({ rgb, alpha });
    if (alpha === 1) break;
  }
  return layers.reduceRight((under, { rgb, alpha }) => mix(rgb, under, alpha), [255, 255, 255]);
};
for (const element of document.querySelectorAll('body *')) {
  const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
  if (!own || !shown(element) || element.disabled || element.closest('.unseen')) continue;
  const style = getComputedStyle(element);
  const under = ground(element);
  const over = mix(parse(style.color).rgb, under, parse(style.color).alpha);
  const [a, b] = [light(over), light(under)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
  if (ratio < least) faults.push(`contrast ${ratio.toFixed(2)}: ${what(element)}`);
}
return [...new Set(faults)].slice(0, 20);
