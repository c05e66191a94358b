import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { beforeAll, expect, it } from 'vitest';
import { openAccount, type SharedAccount } from '../shared-account.ts';
import { describeInBrowser, expectAccessible, openPage, signIn } from './browser.ts';

let account: SharedAccount;
beforeAll(async () => {
  account = await openAccount();
});

/** Passes connections on to the server until it is cut. */
async function openCable(target: string) {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let server: Server;
  let own = 0;
  const plug = async () => {
    server = createServer((client) => {
      const upstream = connect(Number(port), hostname);
      for (const socket of [client, upstream]) {
        sockets.add(socket);
        socket.on('error', () => {});
        socket.on('close', () => {
          sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
      }
      client.pipe(upstream).pipe(client);
    });
    server.listen(own, '127.0.0.1');
    await once(server, 'listening');
    own = (server.address() as AddressInfo).port;
  };
  await plug();
  return {
    address: `http://127.0.0.1:${own}`,
    plug,
    async cut() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

describeInBrowser('a lost connection', () => {
  it('shows a banner and recovers by itself', async () => {
    const cable = await openCable(account.address);
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, cable.address, account.apiKey);
    // Live values come over the stream that is going to break.
    await page.getByText('in the last minute').waitFor();
    await cable.cut();
    const banner = page.locator('.banner');
    await banner.getByText('The connection to the server is lost').waitFor();
    await expectAccessible(page);
    await cable.plug();
    await banner.waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Usage' }).click();
    await page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor();
    expect(await page.getByLabel('API key').count()).toBe(0);
    await cable.cut();
  });
});

describeInBrowser('a page whose script cannot be loaded', () => {
  it('is loaded again once for each retry', async () => {
    await using opened = await openPage();
    const { page } = opened;
    await signIn(page, account.address, account.apiKey);
    const usageScript = '**/console/assets/usage-*.js';
    let loads = 0;
    await page.route(usageScript, (route) => {
      loads += 1;
      return route.abort();
    });
    await page.getByRole('link', { name: 'Usage' }).click();
    const retry = page.getByRole('button', { name: 'Try again' });
    /** The browser could show nothing without the server. */
    const retryInVain = async () => {
      await page.route('**/healthz', (route) => route.abort());
      const refused = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/healthz'));
      await retry.click();
      await refused;
      await retry.waitFor();
      await page.unroute('**/healthz');
      expect(loads).toBe(2);
    };
    for (const expected of [1, 2, 3]) {
      await expect.poll(() => loads).toBe(expected);
      await retry.waitFor();
      // An unwanted load would have begun before this answer.
      await page.evaluate("fetch('/healthz')");
      expect(loads).toBe(expected);
      if (expected === 2) await retryInVain();
      if (expected === 3) await page.unroute(usageScript);
      await retry.click();
    }
    await page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor();
  });
});
