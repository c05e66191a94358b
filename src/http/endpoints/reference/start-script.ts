/** Runs in the browser: shows the document, and sends the requests of people who are signed in with the token of their session. */
export const START_SCRIPT = `const session = fetch('/v1/sessions/current', { credentials: 'same-origin' })
  .then((answer) => (answer.ok ? answer.json() : undefined))
  .catch(() => undefined);

async function withToken({ request }) {
  const token = (await session)?.csrf_token;
  if (token) request.headers.set('x-baobab-csrf', token);
}

Scalar.createApiReference('#reference', {
  url: '/openapi.json',
  baseServerURL: location.origin,
  theme: 'default',
  withDefaultFonts: false,
  hideClientButton: true,
  telemetry: false,
  agent: { disabled: true },
  showDeveloperTools: 'never',
  authentication: { preferredSecurityScheme: 'key' },
  onBeforeRequest: withToken,
});
`;
