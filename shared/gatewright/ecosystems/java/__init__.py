"""Java: Maven's tests come from its reports, checked against its own summary; Gradle's from a listener in the build."""
