<?php

// PHP runs this before the program: PHPUnit gets one more log, which never reaches a file: our filter reports what is written.
(static function (): void {
    $token = getenv('GATEWRIGHT_REPORT_TOKEN');
    $program = basename((string) ($_SERVER['argv'][0] ?? ''));
    if (!is_string($token) || $token === '' || !str_starts_with($program, 'phpunit')) {
        return;
    }
    foreach (['GATEWRIGHT_REPORT_TOKEN', 'PHP_INI_SCAN_DIR'] as $name) {
        putenv($name);
        unset($_SERVER[$name], $_ENV[$name]);
    }
    $order = json_decode((string) file_get_contents(__DIR__ . '/order.json'), true);

    $emit = static function (string $kind, array $fields) use ($token, $order): void {
        $flags = JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE;
        $line = json_encode(['token' => $token, 'kind' => $kind] + $fields, $flags) . "\n";
        if (strlen($line) > 4096) {
            $cut = array_map(static fn ($value) => is_string($value) ? substr($value, 0, 400) : $value, $fields);
            $line = json_encode(['token' => $token, 'kind' => $kind] + $cut, $flags) . "\n";
        }
        // The reader notices a missing record, and then accepts nothing.
        if (($pipe = @fopen($order['pipe'], 'ab')) !== false) {
            fwrite($pipe, $line);
            fclose($pipe);
        }
    };

    $listener = new class ($emit, $order) {
        private string $rest = '';
        private int $expected = -1;
        private int $ended = 0;
        private bool $good = true;
        private bool $begun = false;
        private string $path = '';
        private string $state = '';

        public function __construct(private Closure $emit, private array $order)
        {
        }

        public function hear(string $data): void
        {
            $lines = explode("\n", $this->rest . $data);
            $this->rest = array_pop($lines);
            foreach ($lines as $line) {
                if (preg_match('/^##teamcity\[(\w+)(.*)\]\s*$/', $line, $found) === 1) {
                    preg_match_all("/ (\w+)='((?:[^'|]|\|.)*)'/", $found[2], $pairs, PREG_SET_ORDER);
                    $this->event($found[1], array_column($pairs, 2, 1));
                }
            }
        }

        private function event(string $kind, array $given): void
        {
            if (!$this->begun) {
                $this->begun = true;
                ($this->emit)('begin', ['framework' => 'phpunit', 'version' => \PHPUnit\Runner\Version::id()]);
            }
            if ($kind === 'testCount') {
                $this->expected = (int) $given['count'];
            } elseif ($kind === 'testStarted') {
                [$this->path, $this->state] = [$this->plain($given['locationHint'] ?? ''), 'passed'];
                ($this->emit)('collected', ['id' => $this->id($given)]);
            } elseif ($kind === 'testFailed') {
                $this->state = 'failed';
            } elseif ($kind === 'testIgnored' && $this->state !== 'failed') {
                $this->state = 'skipped';
            } elseif ($kind === 'testFinished') {
                $this->ended++;
                $this->good = $this->good && $this->state !== 'failed';
                ($this->emit)('test', ['id' => $this->id($given), 'outcome' => $this->state]);
            }
        }

        // Each test has to be reported before the log is closed: a process that ends early closes it, too.
        public function close(): void
        {
            if ($this->begun && $this->ended === $this->expected) {
                ($this->emit)('end', ['status' => $this->good ? 0 : 1]);
            }
        }

        // ``php_qn://FILE::\CLASS::METHOD``
        private function id(array $given): string
        {
            [$file, $class] = explode('::', substr($this->path, strlen('php_qn://'))) + ['', ''];
            $name = preg_replace('/ with data set (.*)$/s', '[$1]', $this->plain($given['name'] ?? ''));
            $top = $this->order['workspace'] . '/';
            $file = str_starts_with($file, $top) ? substr($file, strlen($top)) : basename($file);
            return $file . '::' . ltrim($class, '\\') . '::' . $name;
        }

        private function plain(string $text): string
        {
            return strtr($text, ['||' => '|', "|'" => "'", '|n' => "\n", '|r' => "\r", '|[' => '[', '|]' => ']']);
        }
    };

    final class gatewright_log extends php_user_filter
    {
        public static ?object $listener = null;

        public function filter($in, $out, &$consumed, bool $closing): int
        {
            while ($bucket = stream_bucket_make_writeable($in)) {
                self::$listener?->hear($bucket->data);
                $consumed += $bucket->datalen;
                stream_bucket_append($out, $bucket);
            }
            return PSFS_PASS_ON;
        }

        public function onClose(): void
        {
            self::$listener?->close();
            self::$listener = null;
        }
    }

    gatewright_log::$listener = $listener;
    stream_filter_register('gatewright', 'gatewright_log');
    $more = ['--log-teamcity', 'php://filter/write=gatewright/resource=/dev/null'];
    if ($order['filter'] !== '') {
        array_push($more, '--filter', $order['filter']);
    }
    array_splice($_SERVER['argv'], 1, 0, $more);
    $_SERVER['argc'] = count($_SERVER['argv']);
    $GLOBALS['argv'] = $_SERVER['argv'];
    $GLOBALS['argc'] = $_SERVER['argc'];
})();
