// On paper: light, with what is folded open. Afterwards all is as it was.
(() => {
  const root = document.documentElement;
  let opened = [], theme;
  matchMedia('print').addEventListener('change', ({ matches }) => {
    if (matches) {
      opened = [...document.querySelectorAll('article details:not([open], .hide)')];  // the code of figures stays folded
      theme = root.dataset.theme;
      root.dataset.theme = 'light';
    } else {
      root.dataset.theme = theme;
    }
    for (const part of opened) part.open = matches;
  });
})();
