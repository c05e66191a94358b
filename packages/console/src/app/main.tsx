import { render } from 'preact';
import { interceptLinks } from '../address/router.ts';
import { applyTheme } from '../components/theme.ts';
import { App } from './app.tsx';

applyTheme();
document.addEventListener('click', interceptLinks);
const root = document.getElementById('app');
if (root) {
  // The skeleton of index.html makes room for the real thing.
  root.replaceChildren();
  render(<App />, root);
}
