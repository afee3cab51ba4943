"""Complete runs in an archive, a zip file that is read as untrusted."""

ARCHIVE_SUFFIX = ".ammeter"
