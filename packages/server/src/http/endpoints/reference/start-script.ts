/** The colours of the console, with enough contrast for small text. */
const STYLES = `
.light-mode {
  --scalar-background-1: #fffdfa; --scalar-background-2: #f7f4ef; --scalar-background-3: #f1ece4; --scalar-background-accent: #e3efe2;
  --scalar-color-1: #29221c; --scalar-color-2: #665a4f; --scalar-color-3: #665a4f; --scalar-color-accent: #2d6a3a;
  --scalar-border-color: #e4dcd0; --scalar-color-green: #2d6a3a; --scalar-color-blue: #35527c; --scalar-color-red: #ac2a20;
  --scalar-color-orange: #855300; --scalar-color-yellow: #855300; --scalar-color-purple: #5f57a8;
}
.dark-mode {
  --scalar-background-1: #1c1814; --scalar-background-2: #15120f; --scalar-background-3: #2a241e; --scalar-background-accent: #22331f;
  --scalar-color-1: #efe8de; --scalar-color-2: #b0a396; --scalar-color-3: #b0a396; --scalar-color-accent: #86c993;
  --scalar-border-color: #352d26; --scalar-color-green: #86c993; --scalar-color-blue: #a9c2e6; --scalar-color-red: #f39486;
  --scalar-color-orange: #e9b45f; --scalar-color-yellow: #e9b45f; --scalar-color-purple: #a79ff0;
}
`;

/**
 * Runs in the browser before the viewer: shows the document, and sends the requests of people who are signed in with the token of their session
 * instead of an empty key.
 */
export const START_SCRIPT = `const send = window.fetch.bind(window);
const session = send('/v1/sessions/current')
  .then((answer) => (answer.ok ? answer.json() : undefined))
  .catch(() => undefined);

window.fetch = async (input, init) => {
  const request = new Request(input, init);
  const { origin, pathname } = new URL(request.url);
  if (origin !== location.origin || !pathname.startsWith('/v1/')) return send(request);
  const token = (await session)?.csrf_token;
  if (token && /^bearer *$/i.test(request.headers.get('authorization') ?? 'bearer')) {
    request.headers.delete('authorization');
    request.headers.set('x-baobab-csrf', token);
  }
  return send(request);
};

window.addEventListener('load', () => {
  Scalar.createApiReference('#reference', {
    url: '/openapi.json',
    servers: [{ url: location.origin }],
    withDefaultFonts: false,
    hideClientButton: true,
    telemetry: false,
    agent: { disabled: true },
    mcp: { disabled: true },
    showDeveloperTools: 'never',
    authentication: { preferredSecurityScheme: 'key' },
    hideModels: true,
    theme: 'none',
    customCss: ${JSON.stringify(STYLES)},
  });
  // The viewer leaves some buttons without a name, gives others a name without their text, and has lists that only a mouse can scroll.
  const repair = () => {
    for (const button of document.querySelectorAll('button')) {
      if (button.classList.contains('group/copy-button')) button.ariaLabel ||= 'Copy';
      if (button.classList.contains('show-more')) button.removeAttribute('aria-label');
    }
    for (const list of document.querySelectorAll('ul.endpoints')) list.tabIndex = 0;
  };
  new MutationObserver(repair).observe(document.body, { childList: true, subtree: true });
});
`;
