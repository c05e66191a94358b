import { render } from 'preact';
import { App } from './app.tsx';
import { interceptLinks } from './router.ts';
import { applyTheme } from './theme.ts';

applyTheme();
document.addEventListener('click', interceptLinks);
const root = document.getElementById('app');
if (root) {
  // The skeleton of index.html makes room for the real thing.
  root.replaceChildren();
  render(<App />, root);
}
