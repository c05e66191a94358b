/** The name of a model. Its provider is left out where there is no room; the title has all of it. */
export function Slug({ slug, version }: { slug: string; version?: string }) {
  const cut = slug.indexOf('/') + 1;
  return (
    <span title={version === undefined ? slug : `${slug}@${version}`}>
      <span class="slug-provider">{slug.slice(0, cut)}</span>
      {slug.slice(cut)}
      {version !== undefined && <span class="slug-version">@{version}</span>}
    </span>
  );
}
