/* Maximums of building images (src/build, src/core/build*); the others are in limits.h. */
#pragma once

#define DOCKERFILE_MAX		 (1u << 20)	     /* bytes of the file, and of one value in it */
#define DOCKERFILE_STEPS_MAX	 4096u		     /* instructions */
#define DOCKERFILE_IGNORED_MAX	 16u		     /* lines that are named as not used */
#define DOCKERFILE_HEREDOCS_MAX	 64u		     /* of one instruction */
#define BUILD_WORDS_MAX		 65536u		     /* of one list */
#define BUILD_EXPANDED_BYTES_MAX ((uint64_t)8 << 30) /* archives of one ADD, unpacked */
#define BUILD_CONTEXT_BYTES_MAX	 ((uint64_t)8 << 30) /* of a context that came as a tar */
#define BUILD_NAME_MAX		 255u		     /* a variable's name, bytes */
#define BUILD_EXPAND_DEPTH_MAX	 32u		     /* ${...} in ${...} */
#define BUILD_IGNORE_MAX	 (1u << 20)	     /* bytes of .dockerignore */
#define BUILD_RULES_MAX		 4096u		     /* patterns in it */
#define BUILD_MATCH_STEPS	 (1u << 30)	     /* of all of them, in one COPY, and */
#define BUILD_MATCH_STEPS_EACH	 (1u << 16)	     /* for each file there, as many more */
#define BUILD_PORTS_MAX		 1024u		     /* of one EXPOSE */
#define BUILD_DEPTH_MAX		 256u	     /* directories of a context within each other */
#define BUILD_SECRETS_MAX	 32u	     /* of one RUN */
#define BUILD_SECRET_MAX	 (64u << 10) /* bytes of one */
