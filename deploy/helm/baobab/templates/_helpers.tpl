{{- define "baobab.name" -}}
{{- printf "%s" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "baobab.selector" -}}
app.kubernetes.io/name: baobab
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "baobab.labels" -}}
{{ include "baobab.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* A variable whose value is a key of the secret, if the secret has it. */ -}}
{{- define "baobab.secretVariable" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
      optional: true
{{- end -}}
