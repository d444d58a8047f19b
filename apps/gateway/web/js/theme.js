// Sets the chosen colours before the first paint, so that a dark page never flashes white. Not a
// module: modules run too late.
try {
  const chosen = localStorage.getItem('persys-theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing follows the system.
}
