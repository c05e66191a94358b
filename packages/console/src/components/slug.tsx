export interface SlugProps {
  slug: string;
  version?: string;
  /** The list has other versions of the model, so the version is shown on small screens too. */
  several?: boolean;
}

/** The name of a model. Its provider is left out where there is no room; the title has all of it. */
export function Slug({ slug, version, several = false }: SlugProps) {
  const cut = slug.indexOf('/') + 1;
  return (
    <span class={several ? 'slug-several' : undefined} title={version === undefined ? slug : `${slug}@${version}`}>
      <span class="slug-provider">{slug.slice(0, cut)}</span>
      {slug.slice(cut)}
      {version !== undefined && <span class="slug-version">@{version}</span>}
    </span>
  );
}
