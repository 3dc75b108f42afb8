-- The tables of version 3: headers of requests, traces, jobs that are paused.

ALTER TABLE hwheel.job
	ADD COLUMN headers     jsonb, -- of a request: names and texts, which may be secrets
	ADD COLUMN traceparent text,  -- as in the recommendation "Trace Context" of the W3C
	-- When a paused job would be due; the job itself is due at infinity. A job that is
	-- paused while it runs has infinity here until that run has ended.
	ADD COLUMN paused_due  timestamptz;

UPDATE hwheel.settings SET version = 3;
