{{- /* What the schema cannot say, or not in a sentence. */}}
{{- define "sluicegate.checks" -}}
{{- if and .Values.watch.ownNamespace .Values.watch.namespace }}
{{- fail "watch: set ownNamespace for the release's own namespace, or namespace for another one, not both" }}
{{- end }}
{{- $lease := .Values.settings.leaseSeconds | default 15 | float64 }}
{{- $request := .Values.settings.requestTimeoutSeconds | default 0 | float64 }}
{{- if gt (mulf $request 3.0) $lease }}
{{- fail (printf "settings.requestTimeoutSeconds: %v must be at most a third of leaseSeconds, %v, so that a write has ended before another operator may start" $request $lease) }}
{{- end }}
{{- if hasKey .Values.podLabels "app.kubernetes.io/name" }}
{{- fail "podLabels: NetworkPolicies of clusters select the operator by app.kubernetes.io/name; remove this label" }}
{{- end }}
{{- range $label := list "name" "part-of" "version" }}
{{- if hasKey $.Values.commonLabels (printf "app.kubernetes.io/%s" $label) }}
{{- fail (printf "commonLabels: app.kubernetes.io/%s is set by the chart; remove it" $label) }}
{{- end }}
{{- end }}
{{- if eq (int .Values.admission.port) (int .Values.metrics.port) }}
{{- fail (printf "admission.port: %v is the metrics port; choose another port" .Values.admission.port) }}
{{- end }}
{{- if and .Values.admission.enabled .Values.admission.certManager.enabled (not (.Capabilities.APIVersions.Has "cert-manager.io/v1")) }}
{{- fail "admission.certManager.enabled: the API server does not know cert-manager.io/v1: install cert-manager first (or render with --api-versions cert-manager.io/v1)" }}
{{- end }}
{{- if and .Values.guard.enabled (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail "guard.enabled needs Kubernetes 1.30 or later, which enables ValidatingAdmissionPolicies" }}
{{- end }}
{{- end }}
