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
    baseServerURL: location.origin,
    withDefaultFonts: false,
    hideClientButton: true,
    telemetry: false,
    agent: { disabled: true },
    mcp: { disabled: true },
    showDeveloperTools: 'never',
    authentication: { preferredSecurityScheme: 'key' },
  });
});
`;
