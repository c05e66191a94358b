import { ConfigError, type ResolvedConfig } from '../config/load.ts';
import { type CertificateFiles, readCertificate } from '../http/connections/certificate.ts';

/** The files of the TLS certificate, if one is configured. Checks them before anything is opened. */
export async function certificateFiles(
  { tls }: Pick<ResolvedConfig, 'tls'>,
  locate: (path: readonly string[]) => string,
): Promise<CertificateFiles | undefined> {
  const { cert, key } = tls;
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) {
    const [given, missing] = cert === undefined ? ['key', 'cert'] : ['cert', 'key'];
    throw new ConfigError(`${locate(['tls', given])}: tls.${given} needs tls.${missing} too`);
  }
  try {
    await readCertificate({ cert, key });
  } catch (error) {
    throw new ConfigError(
      `${locate(['tls', 'cert'])}: tls: the certificate cannot be used: ${(error as Error).message}`,
    );
  }
  return { cert, key };
}
